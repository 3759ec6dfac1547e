/** One worker of `teamtr verify`: checks the ranges of cases it is sent, one after the other. */
import { parentPort } from 'node:worker_threads'
import { verifyCases } from '../theory/verify.js'

parentPort!.on('message', (range: { seed: number; from: number; to: number }) => parentPort!.postMessage(verifyCases(range)))
