/** What several sources have, as it comes. */

/** Ends when all have ended; with the first error, or when it is left, all are left. No source is asked ahead of its reader. */
export async function* interleaved<T>(...sources: readonly AsyncIterable<T>[]): AsyncGenerator<T> {
  const iterators = sources.map((source) => source[Symbol.asyncIterator]());
  const come: { iterator: AsyncIterator<T>; result: IteratorResult<T> }[] = [];
  let failure: { error: unknown } | undefined;
  let changed = Promise.withResolvers<void>();
  // Not by a race: each would leave something behind at whoever is silent for long.
  const ask = (iterator: AsyncIterator<T>): void => {
    iterator
      .next()
      .then(
        (result) => void come.push({ iterator, result }),
        (error: unknown) => void (failure ??= { error }),
      )
      .finally(() => changed.resolve());
  };
  for (const iterator of iterators) ask(iterator);
  try {
    for (let open = iterators.length; open > 0;) {
      if (failure !== undefined) throw failure.error;
      const first = come.shift();
      if (first === undefined) {
        await changed.promise;
        changed = Promise.withResolvers();
      } else if (first.result.done === true) open -= 1;
      else {
        yield first.result.value;
        ask(first.iterator);
      }
    }
  } finally {
    // One that is in the middle of its next leaves once that is done: nobody waits for it.
    for (const iterator of iterators) void iterator.return?.().catch(() => undefined);
  }
}
