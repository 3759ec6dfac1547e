/** Processor time of this process so far, in milliseconds: bounds on it hold on a busy machine, too. */
export const cpuTime = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
