/** The audit trail: who did what, when, from where, and what it was before. Kept by day, outside of what the trail is about. */
import { routedAddress } from '@flynn/kit/client-address';
import { FlynnError, asFlynnError } from '@flynn/kit/errors';
import type { CheckedCall } from '@flynn/kit/http-handler';
import type { Logger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import type { Route } from '@flynn/kit/routes';
import { nameKey, resourceKey } from '@flynn/resource/keys';
import { decodeResource } from '@flynn/resource/record';
import type { Revision, Store, Transaction } from '@flynn/store/store';
import { principalOf, servicePrincipal } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import { hiddenValue } from '../access/redaction.ts';
import { idInToken, tokenIdIn } from '../access/token-text.ts';
import { appType } from '../resources.ts';
import { appIdIn, changesOf, withBefore } from './changes.ts';
import type { KeyedChange } from './changes.ts';
import { actionOf, mayBeIdle } from './idle.ts';
import type { AuditChange, AuditEntry } from './model.ts';
import { Repeats } from './repeats.ts';

/** Not under what apps and hosts are kept in: a deleted app leaves nothing there, and its trail stays. */
export const auditRoot = '/flynn-audit/';
const writeMs = 10_000;
/** In this time. */
const repeatMs = 60_000;
const maxKinds = 10_000;
/** Of a caller at a route: refusals with the same code, and what was so already. */
const linesOf = { failed: 1, unchanged: 60 } as const;

export type Requested = Pick<CheckedCall, 'params' | 'headers' | 'remoteAddress' | 'requestId'>;

/** One request's part of the trail. */
export class AuditedMutation {
  readonly key: string;
  readonly #entry: AuditEntry;
  readonly #commits: { revision: Revision; changes: readonly KeyedChange[] }[] = [];

  constructor(id: string, nowMs: number, who: Principal, route: Route, request: Requested) {
    this.key = keyOfId(id);
    this.#entry = { ...entryOf(who, route, request), id, at: new Date(nowMs).toISOString() };
  }

  /** What was asked for by its name has that name. */
  nameOf(appId: string | undefined, changes: readonly KeyedChange[]): string | undefined {
    const { app } = this.#entry.params;
    if (app !== undefined && app !== appId) return app;
    const own = changes.find(({ change }) => change.id === appId);
    return typeof own?.spec?.['name'] === 'string' ? own.spec['name'] : undefined;
  }

  /** Whether the entry that went out with the change is all there is to say: what is new was nothing before. */
  get isComplete(): boolean {
    const changes = this.#commits.flatMap((commit) => commit.changes);
    const appId = appIdIn(changes);
    const isNamed = appId === undefined || this.nameOf(appId, changes) !== undefined;
    return this.#commits.length === 1 && isNamed && changes.every(({ change }) => change.action === 'create');
  }

  get hasCommitted(): boolean {
    return this.#commits.length > 0;
  }

  /** Whoever has several tokens is one. */
  get who(): string {
    const { kind, name, userId } = this.#entry.actor;
    return userId ?? `${kind} ${name}`;
  }

  get action(): string {
    return this.#entry.action;
  }

  /** How it ended where nothing failed. */
  get outcome(): 'done' | 'unchanged' {
    return this.hasCommitted || !mayBeIdle(this.action) ? 'done' : 'unchanged';
  }

  get params(): Readonly<Record<string, string>> {
    return this.#entry.params;
  }

  get commits(): readonly { revision: Revision; changes: readonly KeyedChange[] }[] {
    return this.#commits;
  }

  /** The entry as it goes out with a transaction: everything that is known by then. */
  put(transaction: Transaction): { put: string; value: string } {
    const changes = [...this.#commits.flatMap((commit) => commit.changes), ...changesOf(transaction)];
    const appId = appIdIn(changes);
    return this.finalPut({
      outcome: 'done',
      changes: changes.map(({ change }) => change),
      appId,
      appName: this.nameOf(appId, changes),
    });
  }

  onCommitted(transaction: Transaction, revision: Revision): void {
    this.#commits.push({ revision, changes: changesOf(transaction) });
  }

  finalPut(more: {
    outcome: string;
    error?: string;
    changes: AuditChange[];
    appId: string | undefined;
    appName?: string | undefined;
    count?: number | undefined;
  }): { put: string; value: string } {
    const { outcome, error, changes, appId, appName, count } = more;
    const entry: AuditEntry = {
      ...this.#entry,
      outcome,
      changes,
      ...(error === undefined ? {} : { error }),
      ...(appId === undefined ? {} : { app: { id: appId, ...(appName === undefined ? {} : { name: appName }) } }),
      ...(count === undefined ? {} : { count }),
    };
    return { put: this.key, value: JSON.stringify(entry) };
  }
}

/** In order of time, and by day, for people who look at the store. */
function auditKey(id: string, at: string): string {
  return `${auditRoot}${at.slice(0, 10)}/${id}`;
}

/** `invalid` for what is no id of the trail. */
export function keyOfId(id: string): string {
  const ms = timeOfId(id);
  if (ms === undefined) throw new FlynnError('invalid', `"${id.slice(0, 60)}" is no id of the audit trail`);
  return auditKey(id, new Date(ms).toISOString());
}

/** An id begins with its time (RFC 9562, version 7: 48 bits of milliseconds). Undefined for one that does not. */
export function timeOfId(id: string): number | undefined {
  const [, high, low] = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/.exec(id) ?? [];
  return high === undefined || low === undefined ? undefined : Number.parseInt(high + low, 16);
}

function entryOf(who: Principal, route: Route, request: Requested): Omit<AuditEntry, 'id' | 'at'> {
  const { headers, remoteAddress, requestId, params } = request;
  const userAgent = headers['user-agent']?.slice(0, 200);
  return {
    requestId,
    actor: {
      kind: who.kind,
      name: who.name,
      ...(who.userId === undefined ? {} : { userId: who.userId }),
      ...(who.token === undefined ? {} : { tokenId: who.token.id }),
      ...(who.sshKey === undefined ? {} : { sshKey: who.sshKey }),
    },
    action: actionOf(route),
    params: Object.fromEntries(Object.entries(params).map(([name, value]) => [name, shownParam(name, value)])),
    from: { address: routedAddress(headers) ?? remoteAddress, ...(userAgent === undefined ? {} : { userAgent }) },
    outcome: 'done',
    changes: [],
  };
}

/**
 * What is given in the place of a token's id may be all of it, or another key, and good still: that failed, or was not the
 * caller's.
 */
function shownParam(name: string, value: string): string {
  return name === 'token' ? (tokenIdIn(value) ?? hiddenValue) : (idInToken(value) ?? value);
}

export class AuditTrail implements AsyncDisposable {
  readonly #store: Store;
  readonly #log: Logger;
  readonly #now: () => number;
  readonly #newId: () => string;
  readonly #writing = new Set<Promise<void>>();
  readonly #repeats = new Repeats<{ mutation: AuditedMutation; failure: unknown }>({
    windowMs: repeatMs,
    maxKinds,
    tell: ({ mutation, failure }, count) => void this.#writeDown(mutation, failure, count),
  });

  /** `store` is the plain one: the trail is no mutation of its own. */
  constructor(options: { store: Store; log: Logger; now: () => number; newId: () => string }) {
    this.#store = options.store;
    this.#log = options.log;
    this.#now = options.now;
    this.#newId = options.newId;
  }

  begin(call: CheckedCall, route: Route): AuditedMutation {
    // Who logs in is nobody yet: what comes of it says who it was.
    const who = call.caller === undefined ? servicePrincipal('login') : principalOf(call);
    return new AuditedMutation(this.#newId(), this.#now(), who, route, call);
  }

  /**
   * How it ended. What was committed has its entry already, which is now told what was there before; nobody waits for
   * that. What was carried out elsewhere, as stopping a job on its host is, is written down before it is answered, each time. What
   * changed nothing and comes all the time is counted.
   */
  async end(mutation: AuditedMutation, failure: unknown): Promise<void> {
    if (failure === undefined && mutation.isComplete) return;
    if (!mutation.hasCommitted && !this.#hasOwnLine(mutation, failure)) return;
    const writing = this.#writeDown(mutation, failure);
    if (!mutation.hasCommitted && failure === undefined) await writing;
  }

  #hasOwnLine(mutation: AuditedMutation, failure: unknown): boolean {
    const outcome = failure === undefined ? mutation.outcome : asFlynnError(failure).code;
    if (outcome === 'done') return true;
    const lines = failure === undefined ? linesOf.unchanged : linesOf.failed;
    const kind = `${mutation.who} ${mutation.action} ${outcome}`;
    return this.#repeats.hasOwnLine(kind, { mutation, failure }, { lines, nowMs: this.#now() });
  }

  #writeDown(mutation: AuditedMutation, failure: unknown, count?: number): Promise<void> {
    const writing = this.#write(mutation, failure, count).catch((error: unknown) => {
      this.#log.error({ err: error, key: mutation.key }, 'an entry of the audit trail could not be completed');
    });
    this.#writing.add(writing);
    void writing.finally(() => this.#writing.delete(writing));
    return writing;
  }

  /** The gate turned somebody away who is known. */
  refused(who: Principal, route: Route, request: Requested, error: FlynnError): void {
    if (route.method === 'GET' || who.kind === 'service') return;
    void this.end(new AuditedMutation(this.#newId(), this.#now(), who, route, request), error);
  }

  /** Until everything is written that was under way. */
  async flushed(): Promise<void> {
    await Promise.all(this.#writing);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // What is counted is written over what it was counted for.
    await this.flushed();
    this.#repeats.end();
    await this.flushed();
  }

  async #write(mutation: AuditedMutation, failure: unknown, count: number | undefined): Promise<void> {
    const signal = withDeadline(writeMs);
    const changes: AuditChange[] = [];
    for (const commit of mutation.commits) {
      for (const change of commit.changes) changes.push(await this.#completed(change, commit.revision, signal));
    }
    const changed = appIdIn(mutation.commits.flatMap((commit) => commit.changes));
    const appId = changed ?? (await this.#appIdOf(mutation.params['app'], signal));
    const appName = await this.#appName(mutation, appId, changes, signal);
    const known = failure === undefined ? undefined : asFlynnError(failure);
    const outcome = known?.code ?? mutation.outcome;
    const error = known === undefined ? {} : { error: known.message.slice(0, 500) };
    await this.#store.transact(
      { then: [mutation.finalPut({ outcome, ...error, changes, appId, appName, count })] },
      { signal },
    );
  }

  async #completed(change: KeyedChange, revision: Revision, signal: AbortSignal): Promise<AuditChange> {
    try {
      const { entries } = await this.#store.list(change.key, { revision: revision - 1, signal });
      return withBefore(
        change,
        entries.find(({ key }) => key === change.key),
      );
    } catch (error) {
      // Compacted already, on a store that is in a hurry: what it is now is still known.
      this.#log.debug({ err: error, key: change.key }, 'what was there before is not known any more');
      return change.change;
    }
  }

  /** Of what changed nothing: the app its path named, if there is one. */
  async #appIdOf(nameOrId: string | undefined, signal: AbortSignal): Promise<string | undefined> {
    if (nameOrId === undefined) return undefined;
    const then = [{ get: resourceKey(appType.name, nameOrId) }, { get: nameKey(appType.name, nameOrId) }];
    const { reads } = await this.#store.transact({ then }, { signal });
    return reads[0]?.[0] === undefined ? reads[1]?.[0]?.value : nameOrId;
  }

  async #appName(
    mutation: AuditedMutation,
    appId: string | undefined,
    changes: readonly AuditChange[],
    signal: AbortSignal,
  ): Promise<string | undefined> {
    if (appId === undefined) return undefined;
    const named = mutation.nameOf(
      appId,
      mutation.commits.flatMap((commit) => commit.changes),
    );
    if (named !== undefined) return named;
    const own = changes.find(({ type }) => type === 'app');
    const name = own?.after?.['name'] ?? own?.before?.['name'];
    if (typeof name === 'string') return name;
    const entry = await this.#store.get(resourceKey(appType.name, appId), { signal });
    return entry === undefined ? undefined : decodeResource(appType, entry).spec.name;
  }
}
