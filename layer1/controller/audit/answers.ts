/**
 * The first answer to a request that names itself with an Idempotency-Key is the answer to all of them: whoever asks again
 * because a connection broke makes nothing twice. Kept in the store for a day: any controller answers, also after a restart.
 *
 * INVARIANTS. Of the requests with one key, one writes: all its transactions compare the key's record, which says who it
 * is. A record whose request wrote nothing may be taken over; one that wrote and lost its answer is not carried out again.
 */
import { createHash } from 'node:crypto';
import { FlynnError } from '@flynn/kit/errors';
import type { CheckedCall } from '@flynn/kit/http-handler';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import type { Route } from '@flynn/kit/routes';
import { decodeJson } from '@flynn/store/codec';
import type { Compare, Entry, Operation, Revision, Store } from '@flynn/store/store';
import { z } from 'zod';
import { principalOf } from '../access/principal.ts';
import type { Sightings } from './sightings.ts';

export const answersRoot = '/flynn-answers/';
export const answerHeader = 'idempotency-key';
export const keyPattern = /^[\x21-\x7e]{1,255}$/;
const keepMs = 86_400_000;
/** No request takes this long to write. */
export const staleMs = 60_000;
const waitMs = 20_000;
const maxAnswerBytes = 256 * 1024;
const batchSize = 100;

const recordSchema = z.object({
  /** Of method, path and body. */
  request: z.string(),
  /** The request that claimed it. */
  by: z.string(),
  state: z.enum(['begun', 'committed', 'done']),
  at: z.number(),
  answer: z.unknown().optional(),
  /** There was one that is told once only. */
  isSecret: z.boolean().optional(),
  /** There was one that has no room here; `isSecret` as well, for versions that would answer with nothing. */
  isTooLarge: z.boolean().optional(),
  /** Of what was made, where its answer is not kept for its size. */
  madeId: z.string().optional(),
});
type Record = z.output<typeof recordSchema>;

/** One request's claim to be the first. */
export class Claim {
  readonly #store: Store;
  readonly #key: string;
  readonly #record: Record;
  #revision: Revision;

  constructor(options: { store: Store; key: string; record: Record; revision: Revision }) {
    this.#store = options.store;
    this.#key = options.key;
    this.#record = options.record;
    this.#revision = options.revision;
  }

  addTo(): { compare: Compare[]; then: Operation[] } {
    const then = [{ put: this.#key, value: JSON.stringify({ ...this.#record, state: 'committed' }) }];
    return { compare: [{ key: this.#key, modRevision: this.#revision }], then };
  }

  onCommitted(revision: Revision): void {
    this.#revision = revision;
  }

  async keep(answer: unknown, isSecret: boolean): Promise<void> {
    const kept = isSecret ? { isSecret } : keptOf(answer);
    await this.#write([{ put: this.#key, value: JSON.stringify({ ...this.#record, state: 'done', ...kept }) }]);
  }

  /** Nothing was done: the next one may try. */
  async giveBack(): Promise<void> {
    await this.#write([{ delete: this.#key }]);
  }

  async #write(then: Operation[]): Promise<void> {
    const compare = [{ key: this.#key, modRevision: this.#revision }];
    await this.#store.transact({ compare, then }, { signal: withDeadline(5_000) });
  }
}

function keptOf(answer: unknown): Partial<Record> {
  if (JSON.stringify(answer ?? null).length <= maxAnswerBytes) return { answer: answer ?? null };
  const hasId = typeof answer === 'object' && answer !== null && 'id' in answer && typeof answer.id === 'string';
  return { isSecret: true, isTooLarge: true, ...(hasId ? { madeId: String(answer.id) } : {}) };
}

/** `madeId`: of what the first request made, whose answer was too large to be kept. */
export type Found = { claim: Claim } | { answer: unknown } | { madeId: string };

/** Undefined for a request that has no such key. Waits for the first one while that is under way. */
export async function claimAnswer(
  store: Store,
  call: CheckedCall,
  route: Route,
  { now, sightings }: { now: () => number; sightings: Sightings },
): Promise<Found | undefined> {
  const given = call.headers[answerHeader];
  if (given === undefined) return undefined;
  if (typeof given !== 'string' || !keyPattern.test(given)) {
    throw new FlynnError('invalid', 'an Idempotency-Key is 1 to 255 printable characters without spaces');
  }
  const who = principalOf(call);
  const key = `${answersRoot}${digest(who.userId ?? who.id)}/${digest(given)}`;
  const request = digest(JSON.stringify([route.method, route.path, call.params, call.query, call.body]));
  const record: Record = { request, by: call.requestId, state: 'begun', at: now() };
  const put: Operation = { put: key, value: JSON.stringify(record) };
  const { signal } = call;
  const found = await waitFor<Found | { refusal: FlynnError }>(
    async () => {
      const entry = await store.get(key, { signal });
      const kept = entry === undefined ? undefined : decodeJson(recordSchema, entry.value, key);
      if (entry !== undefined) sightings.note(entry.modRevision);
      const isStale = entry !== undefined && sightings.isOld(entry.modRevision);
      const state = kept === undefined ? 'free' : stateOf(kept, record, isStale);
      if (state instanceof FlynnError) return { refusal: state };
      if (state === 'answered') return kept?.madeId === undefined ? { answer: kept?.answer } : { madeId: kept.madeId };
      if (state === 'under way') return undefined;
      // Claimed by an attempt whose answer was lost.
      if (state === 'own') return { claim: new Claim({ store, key, record, revision: entry?.modRevision ?? 0 }) };
      const result = await store.transact({ compare: [compareOf(key, entry)], then: [put] }, { signal });
      if (!result.succeeded) return undefined;
      return { claim: new Claim({ store, key, record, revision: result.revision }) };
    },
    { what: 'the first request with this Idempotency-Key', deadlineMs: waitMs, intervalMs: 50, signal },
  );
  if ('refusal' in found) throw found.refusal;
  return found;
}

function compareOf(key: string, entry: Entry | undefined): Compare {
  return { key, modRevision: entry?.modRevision ?? 0 };
}

/**
 * What is there is good until it is forgotten, see `pruneAnswers`. `isStale`: it has been as it is for longer than any request
 * takes. Neither asks the clock of whoever wrote it.
 */
function stateOf(kept: Record, own: Record, isStale: boolean): 'free' | 'own' | 'under way' | 'answered' | FlynnError {
  if (kept.request !== own.request) {
    return new FlynnError(
      'conflict',
      'this Idempotency-Key was used for another request: a key is for one request and its repetitions',
    );
  }
  if (kept.state === 'done') {
    if (kept.isSecret !== true || kept.madeId !== undefined) return 'answered';
    if (kept.isTooLarge === true) {
      return new FlynnError(
        'conflict',
        'this was carried out, and its answer was too large to be kept for who asks again: read what there is now',
      );
    }
    return new FlynnError(
      'conflict',
      'this was carried out, and its answer holds a secret that is told once: take back what was made, and make another',
    );
  }
  if (kept.state === 'begun' && kept.by === own.by && kept.at === own.at) return 'own';
  if (!isStale) return 'under way';
  if (kept.state === 'begun') return 'free';
  return new FlynnError(
    'conflict',
    'this was carried out, but its answer was lost with the process that made it: look at what is there',
  );
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

/** Forgets answers a day after they were given. */
export async function pruneAnswers(
  store: Store,
  { nowMs, epoch, signal }: { nowMs: number; epoch: Compare; signal: AbortSignal },
): Promise<void> {
  const { entries } = await store.list(answersRoot, { signal });
  const gone = entries.filter(({ key, value }) => nowMs - decodeJson(recordSchema, value, key).at > keepMs);
  for (let at = 0; at < gone.length; at += batchSize) {
    const then = gone.slice(at, at + batchSize).map(({ key }) => ({ delete: key }));
    await store.transact({ compare: [epoch], then }, { signal });
  }
}
