/** What comes in bursts is drawn so often at most. In a page that nobody looks at browsers draw once a minute. */

const drawEveryMs = 100;

export class Bursts<T> {
  readonly #draw: (items: readonly T[]) => void;
  readonly #most: number;
  #pending: T[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Of what waits to be drawn the newest `most` are kept. */
  constructor(draw: (items: readonly T[]) => void, most: number) {
    this.#draw = draw;
    this.#most = most;
  }

  add(item: T): void {
    this.#pending.push(item);
    if (this.#pending.length >= 2 * this.#most) this.#pending.splice(0, this.#pending.length - this.#most);
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#draw(this.#pending.splice(0));
    }, drawEveryMs);
  }

  /** What waits is never drawn. */
  clear(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#pending = [];
  }
}
