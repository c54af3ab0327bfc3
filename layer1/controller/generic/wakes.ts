/** What shows in a watch beside the changes of its objects: many wakes are one look, and looks leave time for the rest. */

/** By the ids of owners. */
export type Woken = Readonly<{ woken: ReadonlySet<string> | 'all' }>;

/** What this owner has may look otherwise by now; without one that may be anything. */
export type Wake = (ownerId?: string) => void;

/** What comes within so long, or within a few times what the look before took, is looked at together. */
const gatherMs = 200;
const restFactor = 4;

/**
 * The events in their order, each asked for once the one before was taken, and looks at what was woken in between. Begins with a
 * look at all if `isWoken`. Ends, or throws, as the events do; who leaves it ends them.
 */
export async function* withWakes<T>(
  events: AsyncIterator<T, void>,
  source: (wake: Wake) => () => void,
  { isWoken }: { isWoken: boolean },
): AsyncGenerator<T | Woken, void, undefined> {
  let bell = Promise.withResolvers<void>();
  let arrived: { result: IteratorResult<T, void> } | { error: unknown } | undefined;
  let owners = new Set<string>();
  let isAll = isWoken;
  let isDue = isWoken;
  let restMs = gatherMs;
  let timer: NodeJS.Timeout | undefined;
  const ask = () => {
    const arrive = (next: typeof arrived) => {
      arrived = next;
      bell.resolve();
    };
    events.next().then(
      (result) => arrive({ result }),
      (error: unknown) => arrive({ error }),
    );
  };
  const stop = source((ownerId) => {
    if (ownerId === undefined) isAll = true;
    else owners.add(ownerId);
    timer ??= setTimeout(() => {
      isDue = true;
      bell.resolve();
    }, restMs);
  });
  ask();
  if (isDue) bell.resolve();
  try {
    for (;;) {
      await bell.promise;
      bell = Promise.withResolvers();
      if (isDue) {
        const woken = isAll ? 'all' : owners;
        owners = new Set();
        isAll = false;
        isDue = false;
        timer = undefined;
        const beganAt = performance.now();
        yield { woken };
        restMs = Math.max(gatherMs, restFactor * (performance.now() - beganAt));
      }
      const next = arrived;
      arrived = undefined;
      if (next === undefined) continue;
      if ('error' in next) throw next.error;
      if (next.result.done === true) return;
      yield next.result.value;
      ask();
    }
  } finally {
    stop();
    clearTimeout(timer);
    // Ended by its signal by then, where it was asked for more.
    void events.return?.().catch(() => undefined);
  }
}
