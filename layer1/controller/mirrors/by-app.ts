/** A mirror's entries by the app they are of: to ask for those of one app costs what that app has, not what all have. */
import type { Mirror, MirrorChange } from '@flynn/store/mirror';

/** INVARIANT. What it answers is what the mirror's snapshot has: it follows each change in the moment the mirror tells it. */
export class ByApp<T> implements Disposable {
  readonly #appIdOf: (value: T) => string;
  readonly #entries = new Map<string, Map<string, T>>();
  readonly #stop: () => void;

  constructor(mirror: Pick<Mirror<T>, 'snapshot' | 'onChange'>, appIdOf: (value: T) => string) {
    this.#appIdOf = appIdOf;
    for (const [key, { value }] of mirror.snapshot.entries) this.#put(key, value);
    this.#stop = mirror.onChange((change) => this.#follow(change));
  }

  /** In no order. */
  of(appId: string): T[] {
    return [...(this.#entries.get(appId)?.values() ?? [])];
  }

  [Symbol.dispose](): void {
    this.#stop();
  }

  #follow({ key, before, after }: MirrorChange<T>): void {
    if (before !== undefined) this.#remove(key, this.#appIdOf(before));
    if (after !== undefined) this.#put(key, after);
  }

  #put(key: string, value: T): void {
    const appId = this.#appIdOf(value);
    const known = this.#entries.get(appId);
    if (known === undefined) this.#entries.set(appId, new Map([[key, value]]));
    else known.set(key, value);
  }

  #remove(key: string, appId: string): void {
    const known = this.#entries.get(appId);
    known?.delete(key);
    if (known?.size === 0) this.#entries.delete(appId);
  }
}
