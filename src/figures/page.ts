/** A section of a page: prose, then figures (SVG text) or tables. */
export interface Section {
  readonly heading: string
  /** Paragraphs, plain text. */
  readonly text?: readonly string[]
  readonly figures?: readonly {
    readonly svg: string
    readonly alt: string
    /** Files beside the page. */
    readonly files?: readonly string[]
  }[]
  readonly table?: { readonly header: readonly string[]; readonly rows: readonly (readonly string[])[] }
}

const escape = (text: string): string => text.replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c] as string)

/** One self-contained HTML page: no script, nothing loaded from outside, opens offline, light and dark. */
export const htmlPage = (title: string, sections: readonly Section[]): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(title)}</title>
<style>
:root { color-scheme: light dark; --ink: #1a1a1a; --soft: #555; --ground: #fff; --rule: #ddd }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --soft: #aaa; --ground: #161616; --rule: #3a3a3a } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--ground); max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
p { max-width: 46rem }
figure { margin: 1rem 0; display: inline-block; background: #fff; border: 1px solid var(--rule); border-radius: 6px; padding: .5rem; max-width: 100%; box-sizing: border-box; overflow-x: auto }
figcaption { font-size: .8rem; color: #555; margin-top: .3rem } figcaption a { color: inherit }
figure img { max-width: 100%; height: auto; display: block }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--rule); text-align: right } th:first-child, td:first-child { text-align: left }
th { color: var(--soft); font-weight: 600 }
</style>
</head>
<body>
<h1>${escape(title)}</h1>
${sections.map(sectionHtml).join('\n')}
</body>
</html>
`

const sectionHtml = ({ heading, text = [], figures = [], table }: Section): string => [
  `<h2>${escape(heading)}</h2>`,
  ...text.map((paragraph) => `<p>${escape(paragraph)}</p>`),
  ...(table ? [tableHtml(table.header, table.rows)] : []),
  // As images, not inline: every Vega SVG numbers its clip paths from 0, and inline they would clip each other.
  ...figures.map(({ svg, alt, files = [] }) =>
    `<figure><img alt="${escape(alt)}" src="data:image/svg+xml;base64,${Buffer.from(svg).toString('base64')}">${caption(files)}</figure>`),
].join('\n')

const caption = (files: readonly string[]): string =>
  files.length ? `<figcaption>${files.map((file) => `<a href="${encodeURIComponent(file)}">${escape(file)}</a>`).join(' · ')}</figcaption>` : ''

const tableHtml = (header: readonly string[], rows: readonly (readonly string[])[]): string => {
  const cells = (tag: string, row: readonly string[]): string => `<tr>${row.map((cell) => `<${tag}>${escape(cell)}</${tag}>`).join('')}</tr>`
  return `<div class="wide"><table><thead>${cells('th', header)}</thead><tbody>${rows.map((row) => cells('td', row)).join('')}</tbody></table></div>`
}
