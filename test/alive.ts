/** What is taken away with the process that made it, where a signal ends that: Ctrl-C, or a run of tests that was told to end. */
const alive = new Set<AsyncDisposable>();
let isWatched = false;

/** Until `end`. */
export function endsWithProcess(one: AsyncDisposable): void {
  alive.add(one);
  if (isWatched) return;
  isWatched = true;
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, endAll);
}

export async function end(one: AsyncDisposable): Promise<void> {
  await one[Symbol.asyncDispose]();
  alive.delete(one);
}

/** Says nothing: whoever would read it may have ended. */
function endAll(): void {
  void Promise.allSettled([...alive].map(end)).then(() => process.exit(1));
}
