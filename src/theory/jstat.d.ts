/** The little of jStat that the intervals use (it ships no types). */
declare module 'jstat' {
  interface Distribution<P extends number[]> {
    pdf(x: number, ...parameters: P): number
    cdf(x: number, ...parameters: P): number
    inv(p: number, ...parameters: P): number
  }
  const jstat: {
    normal: Distribution<[mean: number, standardDeviation: number]>
    studentt: Distribution<[degreesOfFreedom: number]>
    beta: Distribution<[alpha: number, beta: number]>
  }
  export default jstat
}
