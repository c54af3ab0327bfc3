/**
 * Has the store just stood still? While it does it counts the time of leases on, and ends them when it goes on, whoever holds
 * them and however well they are: that says nothing of those that were announced.
 */
export class Standstill {
  readonly #renewedMs: () => number | undefined;
  readonly #silentMs: number;
  readonly #lastsMs: number;
  readonly #now: () => number;
  #lateMs = -Infinity;

  /**
   * `renewedMs`: when a renewal was sent that the store answered, the last one; undefined while nothing is to be renewed.
   * `silentMs`: without an answer for so long it stands still. `lastsMs`: for so long after that it has just done so.
   */
  constructor(options: { renewedMs: () => number | undefined; silentMs: number; lastsMs: number; now: () => number }) {
    this.#renewedMs = options.renewedMs;
    this.#silentMs = options.silentMs;
    this.#lastsMs = options.lastsMs;
    this.#now = options.now;
  }

  /** To be called a few times in `lastsMs`: what was answered since is known no more. */
  look(): void {
    const renewedMs = this.#renewedMs();
    if (renewedMs !== undefined && this.#now() - renewedMs >= this.#silentMs) this.#lateMs = this.#now();
  }

  get isRecent(): boolean {
    this.look();
    return this.#now() - this.#lateMs < this.#lastsMs;
  }
}
