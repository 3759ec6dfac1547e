import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium, type BrowserContext, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { jupyterEnvironment, jupyterPython, noJupyter } from '../jupyter.js'

const python = jupyterPython()
const browser = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync)
const missing = python === undefined ? noJupyter : browser === undefined ? 'needs chromium' : undefined

const flags = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
]

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

describe.skipIf(missing !== undefined)(`a notebook in JupyterLab${missing ? `: skipped, ${missing}` : ''}`, () => {
  const home = mkdtempSync(join(tmpdir(), 'teamtr-browser-'))
  const notebook = '07-figure-1.ipynb'
  let lab: ChildProcess
  let context: BrowserContext
  let page: Page
  let url = ''

  beforeAll(async () => {
    // a copy, and settings of its own: the dark theme, and no questions asked
    const settings = join(home, 'config', 'lab', 'user-settings', '@jupyterlab', 'apputils-extension')
    mkdirSync(settings, { recursive: true })
    writeFileSync(join(settings, 'themes.jupyterlab-settings'), JSON.stringify({ theme: 'JupyterLab Dark' }))
    writeFileSync(join(settings, 'notification.jupyterlab-settings'), JSON.stringify({ fetchNews: 'false', checkForUpdates: false }))
    mkdirSync(join(home, 'notebooks'))
    copyFileSync(join('notebooks', notebook), join(home, 'notebooks', notebook))
    const source = "import { growth } from 'teamtr/figures'\nimport { show } from 'teamtr/notebook'\nawait show(growth([{ n: 2, series: 'a', value: 1 }, { n: 4, series: 'a', value: 2 }], { title: 'Live', y: 'value' }))"
    const cell = { cell_type: 'code', id: 'c', metadata: {}, outputs: [], execution_count: null, source }
    const { metadata } = JSON.parse(readFileSync(join('notebooks', notebook), 'utf8')) as { metadata: object }
    writeFileSync(join(home, 'notebooks', 'live.ipynb'), JSON.stringify({ cells: [cell], metadata, nbformat: 4, nbformat_minor: 5 }))

    const port = await freePort()
    url = `http://127.0.0.1:${port}`
    const options = ['--no-browser', '--allow-root', `--port=${port}`, '--IdentityProvider.token=', '--ServerApp.password=', join(home, 'notebooks')]
    const environment = { ...jupyterEnvironment(), JUPYTER_CONFIG_DIR: join(home, 'config'), JUPYTER_DATA_DIR: join(home, 'data'), JUPYTER_RUNTIME_DIR: join(home, 'runtime') }
    lab = spawn(python!, ['-m', 'jupyterlab', ...options], { env: environment, stdio: 'ignore' })
    const isUp = (): Promise<boolean> => fetch(`${url}/api`).then(({ ok }) => ok, () => false)
    for (let k = 0; !await isUp(); k++) {
      if (k > 240) throw new Error('JupyterLab did not start')
      await new Promise((resolve) => setTimeout(resolve, 250))
    }
    context = await chromium.launchPersistentContext(join(home, 'profile'), { executablePath: browser, headless: true, viewport: { width: 1280, height: 1400 }, args: flags })
    page = await context.newPage()
  }, 120_000)

  afterAll(async () => {
    await context?.close()
    if (lab && lab.exitCode === null) {
      lab.kill('SIGTERM')
      await Promise.race([once(lab, 'exit'), new Promise((resolve) => setTimeout(resolve, 5000))])
      lab.kill('SIGKILL')
    }
    rmSync(home, { recursive: true, force: true })
  }, 30_000)

  it('opens with its committed charts drawn: every mark, and text that can be read in the dark theme', async () => {
    await page.goto(`${url}/lab/tree/${notebook}?reset`)
    const chart = page.locator('.jp-RenderedVegaCommon5').first()
    await chart.locator('svg .mark-symbol path').first().waitFor({ state: 'attached', timeout: 60_000 })
    await chart.scrollIntoViewIfNeeded()
    // three paths of 12 stages, two updates each, and their starts
    expect(await chart.locator('svg g.mark-symbol.role-mark path').count()).toBe(3 * 25)
    expect(await chart.locator('svg g.mark-rect.role-mark path').count()).toBe(31 * 31)
    const title = chart.locator('svg text', { hasText: 'circles the saddle' })
    expect(await title.getAttribute('fill')).toBe('#1a1a1a')
    expect(await page.locator('body').getAttribute('data-jp-theme-light')).toBe('false')
    const picture = await chart.screenshot()
    expect(picture.subarray(1, 4).toString()).toBe('PNG')
    const box = (await chart.boundingBox())!
    expect(picture.readUInt32BE(16)).toBeGreaterThanOrEqual(Math.floor(box.width))
    expect(await page.locator('.jp-RenderedLatex, .jp-RenderedHTML table').count()).toBeGreaterThan(0)
  }, 90_000)

  it('draws a chart that a cell makes now, through the real kernel', async () => {
    await page.close()
    page = await context.newPage()
    await page.goto(`${url}/lab/tree/live.ipynb?reset`)
    await page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').waitFor({ timeout: 60_000 })
    await page.locator('.jp-Notebook .jp-CodeCell .cm-content').first().click({ timeout: 60_000 })
    await page.keyboard.press('Control+Enter')
    const marks = page.locator('.jp-RenderedVegaCommon5 svg g.mark-symbol.role-mark path')
    await marks.first().waitFor({ state: 'attached', timeout: 60_000 })
    expect(await marks.count()).toBe(2)
    expect(await page.locator('.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"], .jp-RenderedText[data-mime-type="application/vnd.jupyter.stderr"]').count()).toBe(0)
  }, 90_000)
})
