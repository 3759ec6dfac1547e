/**
 * Give a request a deadline that holds to the last byte of its answer. (Not AbortSignal.timeout: what fetch makes of that may be collected while the answer
 * is read, and the answer then never ends.)
 *
 * @param f its signal is aborted after so many seconds, with a TimeoutError
 */
export const withDeadline = async <T>(seconds: number, f: (signal: AbortSignal) => Promise<T>): Promise<T> => {
  const controller = new AbortController()
  const timer = setTimeout(() => controller.abort(new DOMException('', 'TimeoutError')), seconds * 1000)
  try {
    return await f(controller.signal)
  } finally {
    clearTimeout(timer)
  }
}
