/**
 * How much of the bodies of one session is held to be whole before a backend is taken (`--buffer`)? Such bodies have been read, so
 * that `Unread` does not count them.
 *
 * INVARIANT. All together are no more than `mostBytes` and a frame for each, unless it is one alone: that has the whole buffer
 * of its route.
 */
const mostBytes = 4_194_304;

export class Collected {
  #bytes = 0;

  /** `own` is what the body that is asked for has of it. */
  isMuch(own: number): boolean {
    return this.#bytes > mostBytes && this.#bytes > own;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
  }
}
