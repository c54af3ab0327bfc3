/** Whether a pull goes on, by what the engine tells of it. */

/** As the engine tells of one layer; what is of the whole image has no `id`. */
export type PullProgress = {
  id?: string | undefined;
  status?: string | undefined;
  progressDetail?: { current?: number | undefined } | undefined;
};

/** It downloads few layers at once, whosever they are: these have their turn once others' have theirs behind them. */
const waiting = 'Waiting';
/** A registry that is mute from a layer's beginning on looks like waiting for a turn, and keeps the turns of others. */
export const maxWaits = 4;
const done = new Set(['Download complete', 'Pull complete', 'Already exists']);

/**
 * Tells once when nothing of a pull went on for `ms`, or for four times that while it seems to wait for its turn. Some engines
 * say the same again and again of what stands still, and of what waits for its turn they say nothing: neither is what it looks
 * like.
 */
export class PullSilence implements Disposable {
  readonly #layers = new Map<string, PullProgress>();
  readonly #ms: number;
  readonly #onSilent: (heard: 'nothing' | 'waiting') => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(ms: number, onSilent: (heard: 'nothing' | 'waiting') => void) {
    this.#ms = ms;
    this.#onSilent = onSilent;
    this.#wait();
  }

  hear(progress: PullProgress): void {
    const { id = '', status, progressDetail } = progress;
    const before = this.#layers.get(id);
    if (before?.status === status && before?.progressDetail?.current === progressDetail?.current) return;
    this.#layers.set(id, progress);
    this.#wait();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #wait(waits = 1): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (this.#isInTurn) this.#onSilent('nothing');
      else if (waits === maxWaits) this.#onSilent('waiting');
      else this.#wait(waits + 1);
    }, this.#ms);
  }

  get #isInTurn(): boolean {
    const states = [...this.#layers.values()].map(({ status = '' }) => status);
    const open = states.filter((status) => !done.has(status) && !status.startsWith('Pulling from '));
    return open.length === 0 || open.some((status) => status !== waiting);
  }
}
