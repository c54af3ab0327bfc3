/** Storage over several stores: one's own copies, and those of the others beside it. */
import type { Readable } from 'node:stream';
import type { Clock } from '@flynn/kit/clock';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type { Blob, ListedBlob, ListedName } from './api.ts';
import { isLater, mergedPage } from './replica.ts';
import type { Held, OwnReplica, Pointer, Replica } from './replica.ts';
import { checkName, hexOf } from './storage.ts';
import type { Page, Storage } from './storage.ts';

/** Another store, by the host whose volume it has. */
export type Peer = { host: string; replica: Replica };

/** One that is asked something small and says nothing for so long is taken to be away. */
const answerMs = 2_000;
/** Longer than discovery takes to forget a store whose host is gone: from then on it is not waited for. */
const patienceMs = 30_000;
const againMs = 200;

type Options = {
  own: OwnReplica;
  /** Those discovery knows, at this moment; undefined while it has not said yet. */
  peers: () => readonly Peer[] | undefined;
  clock: Clock;
  /** Told of a blob that is read here, and of one that a peer has and this store has not. */
  onRead?: (digest: string) => void;
  onMissing?: (digest: string) => void;
};

type Answers<T> = { values: T[]; failure: unknown };
type Limits = { signal?: AbortSignal | undefined };

/**
 * INVARIANTS. What is answered as done, two stores have on disk, where there are two. Nothing is said not to be there, and
 * nothing is removed, unless every store that discovery knows was asked. What cannot be done so yet is tried until discovery
 * forgets who does not answer, then `unavailable`; all of it may be asked again.
 */
export class ReplicatedStorage implements Storage {
  readonly #own: OwnReplica;
  readonly #options: Options;

  constructor(options: Options) {
    this.#own = options.own;
    this.#options = options;
  }

  async put(
    body: AsyncIterable<Uint8Array>,
    { digest, signal }: { digest?: string | undefined; signal?: AbortSignal },
  ): Promise<Blob> {
    const held = await this.#own.put(body, { digest, signal });
    await this.#patiently(`a second copy of ${held.digest}`, { signal }, () => this.#copyOut(held, signal));
    return { digest: held.digest, sizeBytes: held.sizeBytes };
  }

  async open(digest: string, { from = 0 }: { from?: number } = {}): Promise<{ sizeBytes: number; body: Readable }> {
    try {
      const opened = await this.#own.open(digest, { from });
      this.#options.onRead?.(digest);
      return opened;
    } catch (error) {
      if (!hasCode(error, 'not_found')) throw error;
    }
    let failure: unknown;
    for (const { replica } of this.#peers()) {
      try {
        const opened = await replica.open(digest, { from });
        this.#options.onMissing?.(digest);
        return opened;
      } catch (error) {
        if (hasCode(error, 'invalid')) throw error;
        if (!hasCode(error, 'not_found')) failure = error;
      }
    }
    if (failure !== undefined) throw notKnown(`the blob ${digest}`, failure);
    throw missing(`the blob ${digest}`);
  }

  async stat(digest: string): Promise<Blob> {
    hexOf(digest);
    return this.#patiently(`the blob ${digest}`, {}, () => this.#use(digest, this.#options.clock.now()));
  }

  async remove(digest: string, { unusedSince }: { unusedSince?: number | undefined } = {}): Promise<void> {
    hexOf(digest);
    await this.#patiently(`removing ${digest}`, {}, () => this.#remove(digest, unusedSince));
  }

  list(page: Page): Promise<ListedBlob[]> {
    return this.#patiently('the list of blobs', {}, async () =>
      mergedPage(await this.#everywhere((replica, signal) => replica.list(page, { signal })), {
        limit: page.limit,
        keyOf: ({ digest }) => digest,
        merge: (one, other) => (one.usedAt >= other.usedAt ? one : other),
      }),
    );
  }

  async listNames({ after, limit }: Page): Promise<ListedName[]> {
    const found: ListedName[] = [];
    for (let from = after; found.length < limit;) {
      const page = { after: from, limit };
      const pages = await this.#patiently('the list of names', {}, () =>
        this.#everywhere((replica, signal) => replica.pointers(page, { signal })),
      );
      const pointers = mergedPage(pages, { limit, keyOf: ({ name }) => name, merge: later });
      for (const { name, digest, changedAt } of pointers) if (digest !== null) found.push({ name, digest, changedAt });
      from = pointers.at(-1)?.name ?? from;
      if (pointers.length < limit) break;
    }
    return found.slice(0, limit);
  }

  async putName(name: string, digest: string): Promise<void> {
    checkName(name);
    hexOf(digest);
    await this.stat(digest);
    await this.#point(name, digest);
  }

  async getName(name: string): Promise<Blob> {
    checkName(name);
    const pointer = await this.#patiently(`the name ${name}`, {}, () => this.#pointer(name));
    if (pointer === undefined || pointer.digest === null) throw missing(`the name ${name}`);
    return this.stat(pointer.digest);
  }

  async removeName(name: string): Promise<void> {
    checkName(name);
    const pointer = await this.#patiently(`the name ${name}`, {}, () => this.#pointer(name));
    if (pointer !== undefined && pointer.digest !== null) await this.#point(name, null);
  }

  /** Sends what no other store has yet to the first that takes it. */
  async #copyOut({ digest, usedAt }: Held, signal: AbortSignal | undefined): Promise<void> {
    const peers = this.#peers();
    let failure: unknown;
    for (const { replica } of peers) {
      try {
        const there = await replica.use(digest, usedAt, { signal: withDeadline(answerMs, signal) });
        if (there !== undefined) return;
        const { body } = await this.#own.open(digest);
        try {
          await replica.copy({ digest, usedAt }, body, { signal });
        } finally {
          body.destroy();
        }
        return;
      } catch (error) {
        signal?.throwIfAborted();
        failure = error;
      }
    }
    if (failure !== undefined) throw notKnown(`whether another store has ${digest}`, failure);
  }

  /** Two that have it know that it is wanted; or all, when not so many have it. */
  async #use(digest: string, at: number): Promise<Blob> {
    const isFound = (blobs: readonly (Blob | undefined)[]) => blobs.filter((blob) => blob !== undefined).length >= 2;
    const { values, failure } = await this.#all((replica, signal) => replica.use(digest, at, { signal }), isFound);
    if (failure !== undefined && !isFound(values)) throw notKnown(`who has the blob ${digest}`, failure);
    const blob = values.find((one) => one !== undefined);
    if (blob === undefined) throw missing(`the blob ${digest}`);
    return blob;
  }

  async #remove(digest: string, unusedSince: number | undefined): Promise<void> {
    const held = await this.#everywhere((replica, signal) => replica.find(digest, { signal }));
    const used = held.flatMap((one) => one?.usedAt ?? []);
    if (used.length === 0) return;
    const before = unusedSince ?? Math.max(this.#options.clock.now(), ...used.map((at) => at + 1));
    if (used.some((at) => at >= before)) throw isUsed(digest);
    // A use that comes between the two keeps the blob where it came: from there the others have it again.
    const removed = await this.#everywhere((replica, signal) => replica.remove({ digest, before }, { signal }));
    if (removed.includes(false)) throw isUsed(digest);
  }

  /** Two of three that say so know the latest: two took it. */
  async #pointer(name: string): Promise<Pointer | undefined> {
    const { values, failure } = await this.#all((replica, signal) => replica.pointer(name, { signal }));
    const found = values.filter((pointer) => pointer !== undefined);
    if (failure !== undefined && (found.length === 0 || values.length < 2)) {
      throw notKnown(`where the name ${name} points`, failure);
    }
    return found.length === 0 ? undefined : found.reduce(later);
  }

  /** Later than what is in force, whatever another store's clock says. */
  #point(name: string, digest: string | null): Promise<void> {
    return this.#patiently(`the name ${name}`, {}, async () => {
      const known = await this.#pointer(name);
      const pointer = { name, digest, changedAt: Math.max(this.#options.clock.now(), (known?.changedAt ?? 0) + 1) };
      const isKept = (kept: readonly unknown[]) => kept.length >= 2;
      const { values, failure } = await this.#all((replica, signal) => replica.point(pointer, { signal }), isKept);
      if (failure !== undefined && !isKept(values)) throw notKnown(`whether two stores have the name ${name}`, failure);
    });
  }

  /** What all say; `unavailable` if one does not answer. */
  async #everywhere<T>(ask: (replica: Replica, signal: AbortSignal | undefined) => Promise<T>): Promise<T[]> {
    const { values, failure } = await this.#all(ask);
    if (failure !== undefined) throw notKnown('what all blob stores have', failure);
    return values;
  }

  /**
   * Asks all at once, and waits no longer than until there is enough. One's own is given the time
   * it takes, and its failure is thrown: without its disk this store is none.
   */
  async #all<T>(
    ask: (replica: Replica, signal: AbortSignal | undefined) => Promise<T>,
    isEnough: (values: readonly T[]) => boolean = () => false,
  ): Promise<Answers<T>> {
    const peers = this.#peers();
    const limited = withDeadline(answerMs);
    const answers: Answers<T> = { values: [], failure: undefined };
    const enough = Promise.withResolvers<void>();
    const asked = peers.map(async ({ replica }) => {
      try {
        answers.values.push(await ask(replica, limited));
        if (isEnough(answers.values)) enough.resolve();
      } catch (error) {
        answers.failure = error;
      }
    });
    answers.values.push(await ask(this.#own, undefined));
    if (!isEnough(answers.values)) await Promise.race([Promise.all(asked), enough.promise]);
    return { ...answers, values: [...answers.values] };
  }

  #peers(): readonly Peer[] {
    const peers = this.#options.peers();
    if (peers !== undefined) return peers;
    throw new FlynnError(
      'unavailable',
      'service discovery has not said yet which other blob stores there are: try again',
    );
  }

  /** Until it is no longer `unavailable`: discovery forgets a store that is gone. */
  async #patiently<T>(what: string, { signal }: Limits, attempt: () => Promise<T>): Promise<T> {
    const { clock } = this.#options;
    let waitedMs = 0;
    for (let lastMs = clock.now(); ;) {
      try {
        return await attempt();
      } catch (error) {
        if (!hasCode(error, 'unavailable', 'timeout')) throw error;
        // A clock that is set back costs no more than what had passed.
        waitedMs += Math.max(0, clock.now() - lastMs);
        lastMs = clock.now();
        if (waitedMs >= patienceMs) throw late(what, error);
        await clock.sleep(againMs, signal === undefined ? {} : { signal });
      }
    }
  }
}

function later(one: Pointer, other: Pointer): Pointer {
  return isLater(other, one) ? other : one;
}

function missing(what: string): FlynnError {
  return new FlynnError('not_found', `${what} is not in the blob store`);
}

function isUsed(digest: string): FlynnError {
  return new FlynnError('conflict', `the blob ${digest} was used since: it stays`);
}

/** Only a full disk is worth another code: waiting does not mend it. */
function notKnown(what: string, cause: unknown): FlynnError {
  const code = hasCode(cause, 'exhausted') ? 'exhausted' : 'unavailable';
  return new FlynnError(code, `it cannot be known ${what}: another blob store says ${messageOf(cause)}`, { cause });
}

function late(what: string, cause: FlynnError): FlynnError {
  const message = `${what}: ${cause.message}; flynn status tells which blob store is away`;
  return new FlynnError('unavailable', message, { cause });
}
