/** May this agent act as the host? While the record under the host's name is its own, and not before it was. */
import type { Lease } from '@flynn/store/store';

/**
 * INVARIANT. It falls with the first look at a record that is another's. A lease that is lost alone leaves it standing: a host that
 * lost the store goes on with what it knows, but says nothing until it has seen that the record is still its own.
 */
export class Standing {
  #lease: Pick<Lease, 'lost'> | undefined;
  readonly #listeners = new Set<() => void>();

  /** Jobs are started, stopped and concluded about. */
  get mayAct(): boolean {
    return this.#lease !== undefined;
  }

  /** What the store says of the host and its jobs is written. */
  get mayTell(): boolean {
    return this.#lease !== undefined && !this.#lease.lost.aborted;
  }

  /** The record stands on this lease. */
  stand(lease: Pick<Lease, 'lost'>): void {
    if (this.#lease === lease) return;
    this.#lease = lease;
    for (const listener of this.#listeners) listener();
  }

  /** It is another's. */
  fall(): void {
    this.#lease = undefined;
  }

  /** Called when it stands, or stands anew. */
  onStand(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}
