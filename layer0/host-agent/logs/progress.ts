/**
 * How far a container's log was handed on, and how far of that is confirmed.
 *
 * INVARIANT. Confirmed is what everything before was confirmed of too: whatever the order confirmations come in, what is
 * read again after a kill has every line that nobody keeps.
 */
import type { ContainerCursor } from './cursors.ts';

type Step = { cursor: ContainerCursor; isConfirmed: boolean };

export class LogProgress {
  readonly #onConfirmed: (cursor: ContainerCursor) => void;
  #handed: ContainerCursor;
  /** Handed on and not confirmed, oldest first: as many as the sink holds. */
  readonly #pending: Step[] = [];

  constructor(start: ContainerCursor, onConfirmed: (cursor: ContainerCursor) => void) {
    this.#handed = start;
    this.#onConfirmed = onConfirmed;
  }

  get handed(): ContainerCursor {
    return this.#handed;
  }

  /** One at a time: hands something on, after which the log is read up to there. */
  async handOn(cursor: ContainerCursor, hand: (onConfirmed: () => void) => Promise<void>): Promise<void> {
    const step: Step = { cursor, isConfirmed: false };
    this.#pending.push(step);
    try {
      await hand(() => this.#confirm(step));
      this.#handed = cursor;
    } catch (error) {
      const at = this.#pending.indexOf(step);
      if (at >= 0) this.#pending.splice(at, 1);
      throw error;
    }
  }

  /** Something that needs nobody's confirmation but for what was before it. */
  note(cursor: ContainerCursor): void {
    this.#handed = cursor;
    const step: Step = { cursor, isConfirmed: false };
    this.#pending.push(step);
    this.#confirm(step);
  }

  #confirm(step: Step): void {
    step.isConfirmed = true;
    let last: Step | undefined;
    while (this.#pending[0]?.isConfirmed === true) last = this.#pending.shift();
    if (last !== undefined) this.#onConfirmed(last.cursor);
  }
}
