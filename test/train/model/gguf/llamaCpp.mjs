// What llama.cpp makes of a GGUF file:  node llamaCpp.mjs FOLDER FILE.gguf  < [{"text": "…", "ids": […], "greedy": n}, …]
// FOLDER has node-llama-cpp in its node_modules. Prints, for each request, {"textIds": of the text, "logProbs": of ids[1…],
// "tokens": n by arg max, "tokenLogProbs": theirs}. Keys and values are cached in float32, where the default would round them to half
// precision.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [folder, modelPath] = process.argv.slice(2)
const { getLlama } = await import(pathToFileURL(createRequire(`${folder}/package.json`).resolve('node-llama-cpp')).href)
const llama = await getLlama({ build: 'never', skipDownload: true, gpu: false, logLevel: 'error', progressLogs: false })
const model = await llama.loadModel({ modelPath })
const context = await model.createContext({
  contextSize: 512,
  threads: 1,
  flashAttention: false,
  experimentalKvCacheKeyType: 'F32',
  experimentalKvCacheValueType: 'F32',
})
const options = { generateNext: { probabilities: true, options: { temperature: 1, topK: 0, topP: 1, minP: 0 } } }

const sequence = context.getSequence()
const results = []
for (const { text, ids, greedy } of JSON.parse(readFileSync(0, 'utf8'))) {
  await sequence.clearHistory()
  const said = await sequence.controlledEvaluate(ids.map((id) => [id, options]))
  const logProbs = ids.slice(1).map((id, i) => Math.log(said[i].next.probabilities.get(id)))
  const [tokens, tokenLogProbs] = [[], []]
  for (let { probabilities } = said.at(-1).next; tokens.length < greedy; ) {
    const [token, probability] = [...probabilities].reduce((best, entry) => (entry[1] > best[1] ? entry : best))
    tokens.push(token)
    tokenLogProbs.push(Math.log(probability))
    ;[{ next: { probabilities } }] = await sequence.controlledEvaluate([[token, options]])
  }
  results.push({ textIds: model.tokenize(text), logProbs, tokens, tokenLogProbs })
}
process.stdout.write(JSON.stringify(results))
process.exit(0)
