/** Which services are for some processes alone to announce, whether or not anything of them is there at the moment? */
import type { Logger } from '@flynn/kit/log';
import { openMirror } from '@flynn/store/mirror';
import type { Mirror } from '@flynn/store/mirror';
import type { Store } from '@flynn/store/store';
import { LeasedKeys } from './leased-keys.ts';

/** Not beside what is announced: agents of a version before know what is there, and would complain of anything else. */
const prefix = '/flynn/cluster/vouched-services/';
/** An app at rest keeps its names for so long after the last agent that ran some of it has ended. */
export const vouchedSeconds = 20 * 24 * 3_600;

const reachMs = 5_000;

type Options = Readonly<{ store: Store; log: Logger; signal?: AbortSignal }>;

/**
 * INVARIANTS. What was vouched for here is a key in the store for as long as this process is, and for `vouchedSeconds` after
 * that; every process of the store reads it. One that goes while this process lives is put back.
 */
export class VouchedServices implements AsyncDisposable {
  readonly #mirror: Mirror<true>;
  readonly #keys: LeasedKeys;
  readonly #own = new Set<string>();
  readonly #unfollow: () => void;

  private constructor(mirror: Mirror<true>, options: Options) {
    this.#mirror = mirror;
    this.#keys = new LeasedKeys(options);
    this.#unfollow = mirror.onChange(({ key, after }) => {
      if (after === undefined) this.#keys.restore(prefix + key);
    });
  }

  /** Waits up to 30 s for the store. */
  static async open(options: Options): Promise<VouchedServices> {
    // That the key is there is all it says.
    const mirror = await openMirror<true>({ ...options, prefix, decode: () => true, instead: () => true });
    return new VouchedServices(mirror, options);
  }

  has(service: string): boolean {
    return this.#own.has(service) || this.#mirror.snapshot.entries.has(service);
  }

  /** Writes once in the life of this process. If it fails it is written when the store is back. */
  async vouchFor(service: string): Promise<void> {
    if (this.#own.has(service)) return;
    this.#own.add(service);
    const revision = await this.#keys.put(prefix + service, '{}', vouchedSeconds);
    await this.#mirror.reached(revision, { deadlineMs: reachMs });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#unfollow();
    await this.#keys[Symbol.asyncDispose]();
    await this.#mirror[Symbol.asyncDispose]();
  }
}
