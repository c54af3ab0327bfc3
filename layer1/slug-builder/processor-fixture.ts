/** What work takes of the processor: by the clock others may have it meanwhile, for as long as they like. */
export function processorMs(work: () => void): number {
  const atFirst = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(atFirst);
  return (user + system) / 1_000;
}
