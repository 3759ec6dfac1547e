/** One worker of `teamtr verify`: checks the ranges of cases it is sent, one after the other. */
import { parentPort } from 'node:worker_threads'
import { verifyCases, type VerifyRange } from '../theory/verify.js'

parentPort!.on('message', (range: VerifyRange) => parentPort!.postMessage(verifyCases(range)))
