/** How far has the best of several attempts at the same bytes come, and for how long has none come further? */
export class Furthest {
  #bytes = 0;
  #atMs = performance.now();

  /** The same bytes. */
  async *noting(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    let bytes = 0;
    for await (const chunk of source) {
      bytes += chunk.length;
      if (bytes > this.#bytes) {
        this.#bytes = bytes;
        this.#atMs = performance.now();
      }
      yield chunk;
    }
  }

  get fruitlessMs(): number {
    return performance.now() - this.#atMs;
  }
}
