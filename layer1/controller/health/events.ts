/**
 * When something began to be wrong, and when it ended: hosts that vanish and come back, backups that fail, blobs that a disk
 * damaged. In the audit trail, beside what people did; the latest are told with the status.
 */
import type { Finding, Unknown, Verdict } from '@flynn/host-agent/doctor/finding';
import type { Store } from '@flynn/store/store';
import { decodeJson } from '@flynn/store/codec';
import { z } from 'zod';
import type { AuditEntry } from '../audit/model.ts';
import { keyOfId } from '../audit/trail.ts';
import type { Deps } from '../deps.ts';
import { clusterActor, healthEventSchema } from './api.ts';
import type { HealthEvent } from './api.ts';
import { hiddenBy, keyOf, maxTextLength, withMatters } from './event-keys.ts';

/** Beside the trail: what is wrong now, as far as it was told, and what was told last. */
export const eventsKey = '/flynn-events/state';
const maxRecent = 20;
/** What is told to be wrong now is one value of the store, written anew at every look; what does not fit is told as one. */
const maxOpen = { warning: 200, critical: 300 } as const;
/** A transaction holds a hundred operations on any store. */
const maxAtOnce = 90;
const maxRemedyLength = 300;
/** What only passes, as a part that has one instance less while it is deployed, is not told. */
const settledMs = 45_000;
/** A process that was not heard of for so long tells no more. */
const tellerMs = 180_000;

const openSchema = healthEventSchema.omit({ what: true });
const stateSchema = z.object({
  /** Which process tells, and when it last looked. Milliseconds since the epoch. `isBlind`: no agent answers it. */
  teller: z.object({ id: z.string(), at: z.number(), isBlind: z.literal(true).optional() }),
  open: z.record(z.string(), openSchema),
  /** The newest first. */
  recent: z.array(healthEventSchema),
});
type State = z.output<typeof stateSchema>;
type Open = State['open'];

/** What is told to be wrong now, by its key, and when somebody last looked. Undefined before anybody did. */
export async function readHealthState(
  store: Pick<Store, 'get'>,
  signal: AbortSignal,
): Promise<Readonly<Pick<State, 'teller' | 'open'>> | undefined> {
  const entry = await store.get(eventsKey, { signal });
  return entry === undefined ? undefined : decodeJson(stateSchema, entry.value, eventsKey);
}

type EventDeps = { store: Pick<Store, 'get' | 'transact'> } & Pick<Deps, 'now' | 'newId'>;

type Change = { key: string; event: Omit<HealthEvent, 'at'> };
/** What is told of those that are too many to be told one by one. */
const crowd = (count: number): Finding => ({
  check: 'events',
  severity: 'warning',
  subject: 'the cluster',
  what: `${count} more findings than are told one by one: flynn doctor has them all`,
  why: 'what begins and ends among them is not told',
  remedy: 'flynn doctor',
});
const crowdKey = keyOf(crowd(0));

/** A host that is away, and what is broken, is told at once. */
const isUrgent = ({ check, severity }: Pick<Finding, 'check' | 'severity'>): boolean =>
  severity === 'critical' || check === 'hosts';

/**
 * INVARIANTS. One process tells at a time, for each sees what it can reach; another does once that one has gone silent, or sees
 * nothing of the hosts while the other does. The state and the entries are written in one transaction: each is told once.
 */
export class HealthEvents {
  readonly #deps: EventDeps;
  readonly #id: string;
  /** What was found and is not told yet, and since when. */
  #seen: readonly (Finding & { seenMs: number })[] = [];
  readonly #missedMs = new Map<string, number>();
  /** The last word of whoever tells, and when it was heard of here. */
  #heard: { revision: number; ms: number } | undefined;

  /** `store`: the plain one, as the trail's own. */
  constructor(deps: EventDeps) {
    this.#deps = deps;
    this.#id = deps.newId();
  }

  /** The newest first. */
  async recent(signal: AbortSignal): Promise<HealthEvent[]> {
    const entry = await this.#deps.store.get(eventsKey, { signal });
    return entry === undefined ? [] : decodeJson(stateSchema, entry.value, eventsKey).recent;
  }

  /** To be called every minute or so. */
  async record(verdict: Verdict, signal: AbortSignal): Promise<void> {
    const { store, now, newId } = this.#deps;
    const entry = await store.get(eventsKey, { signal });
    const state = entry === undefined ? undefined : decodeJson(stateSchema, entry.value, eventsKey);
    const open = asNow(state?.open ?? {}, verdict.findings);
    const { found, events } = this.#changes(open, verdict);
    const silentMs =
      entry === undefined || state === undefined ? 0 : this.#silentMs(entry.modRevision, state.teller.at);
    const isBlind = verdict.unknown.some(({ check }) => check === 'hosts');
    const isTold = silentMs < tellerMs && (isBlind || state?.teller.isBlind !== true);
    const isOthers = state !== undefined && state.teller.id !== this.#id && isTold;
    if (isOthers) return;
    const at = new Date(now()).toISOString();
    const told = events.map(({ event }): HealthEvent => ({ ...event, at }));
    const next: State = {
      teller: { id: this.#id, at: now(), ...(isBlind ? { isBlind } : {}) },
      open: Object.fromEntries([
        ...Object.entries(open).flatMap(([key, one]) =>
          events.some((event) => event.key === key) ? [] : [[key, asFound(one, found.get(key))]],
        ),
        ...events.flatMap(({ key, event: { what, ...open } }) => (what === 'began' ? [[key, { ...open, at }]] : [])),
      ]),
      recent: [...told, ...(state?.recent ?? [])].slice(0, maxRecent),
    };
    const entries = told.map((event) => auditEntryOf(newId(), event));
    // Refused where another process tells now: it sees what is left to tell.
    await store.transact(
      {
        compare: [{ key: eventsKey, modRevision: entry?.modRevision ?? 0 }],
        then: [
          { put: eventsKey, value: JSON.stringify(next) },
          ...entries.map((one) => ({ put: keyOfId(one.id), value: JSON.stringify(one) })),
        ],
      },
      { signal },
    );
  }

  #changes(open: Open, { findings, unknown }: Verdict): { found: Map<string, Finding>; events: Change[] } {
    const seen = withMatters(this.#seen, findings, keyOf);
    const sharp = withMatters(findings, [...Object.values(open), ...seen], keyOf);
    const found = withoutCrowd(new Map(sharp.map((finding) => [keyOf(finding), finding])), open);
    const isHidden = hiddenBy([...found.values()]);
    const isUnknown = (one: Open[string]) => unknown.some((unseen) => mayHide(unseen, one));
    const sinceMs = this.#note(seen, { found, open, isHidden });
    for (const key of this.#missedMs.keys()) if (found.has(key) || !(key in open)) this.#missedMs.delete(key);
    const began = [...found].flatMap(([key, finding]) => {
      if (key in open || !this.#isSettled(sinceMs.get(key), isUrgent(finding))) return [];
      return [{ key, event: { what: 'began' as const, ...toldOf(finding) } }];
    });
    const nowMs = this.#deps.now();
    const ended = Object.entries(open).flatMap(([key, one]) => {
      if (found.has(key) || isUnknown(one) || isHidden(one)) return [];
      // It may have been missed by a clock that was ahead.
      const firstMs = Math.min(this.#missedMs.get(key) ?? nowMs, nowMs);
      this.#missedMs.set(key, firstMs);
      if (!this.#isSettled(firstMs, isUrgent(one))) return [];
      const { at: _began, ...rest } = one;
      return [{ key, event: { ...rest, what: 'ended' as const } }];
    });
    return { found, events: [...began, ...ended].slice(0, maxAtOnce) };
  }

  /**
   * How long nothing was heard of whoever tells. By this process' clock from one look to the next: another's may be ahead, and
   * what it wrote then is no later for that. Only the first look goes by what is written.
   */
  #silentMs(revision: number, writtenMs: number): number {
    const nowMs = this.#deps.now();
    const heardMs = this.#heard === undefined ? writtenMs : this.#heard.revision === revision ? this.#heard.ms : nowMs;
    this.#heard = { revision, ms: Math.min(heardMs, nowMs) };
    return nowMs - this.#heard.ms;
  }

  /** Since when each is seen that is not told yet. What may be there unrecognised is not forgotten. */
  #note(
    seen: readonly (Finding & { seenMs: number })[],
    { found, open, isHidden }: { found: ReadonlyMap<string, Finding>; open: Open; isHidden: (one: Finding) => boolean },
  ): ReadonlyMap<string, number> {
    const nowMs = this.#deps.now();
    const before = new Map(seen.map((one) => [keyOf(one), one.seenMs]));
    const hidden = seen.filter((one) => !found.has(keyOf(one)) && isHidden(one));
    // It may have been seen by a clock that was ahead.
    const there = [...found].map(([key, one]) =>
      Object.assign({ seenMs: Math.min(before.get(key) ?? nowMs, nowMs) }, one),
    );
    this.#seen = [...there, ...hidden].filter((one) => !(keyOf(one) in open));
    return new Map(this.#seen.map((one) => [keyOf(one), one.seenMs]));
  }

  #isSettled(firstMs: number | undefined, isAtOnce: boolean): boolean {
    const nowMs = this.#deps.now();
    return isAtOnce || nowMs - (firstMs ?? nowMs) >= settledMs;
  }
}

/** What a host cannot look at is of it alone. While agents are not heard of, nothing they found is known to have ended. */
function mayHide(unseen: Unknown, { check, subject }: Open[string]): boolean {
  if (unseen.check === 'hosts') return true;
  return unseen.check === check && (!unseen.subject.startsWith('host ') || unseen.subject === subject);
}

/** A version before may have made the keys in another way, and told no matter. */
function asNow(open: Open, findings: readonly Finding[]): Open {
  return Object.fromEntries(withMatters(Object.values(open), findings, keyOf).map((one) => [keyOf(one), one]));
}

/** What is to be said of it changes while it lasts. */
function asFound(one: Open[string], finding: Finding | undefined): Open[string] {
  if (finding === undefined) return one;
  const { text, remedy } = toldOf(finding);
  return { ...one, text, remedy };
}

function toldOf({
  check,
  severity,
  subject,
  app,
  isAway,
  matter,
  what,
  remedy,
}: Finding): Omit<HealthEvent, 'at' | 'what'> {
  return {
    check,
    severity,
    subject,
    ...(app === undefined ? {} : { app }),
    ...(isAway === undefined ? {} : { isAway }),
    ...(matter === undefined ? {} : { matter }),
    text: what.slice(0, maxTextLength),
    remedy: remedy.slice(0, maxRemedyLength),
  };
}

/** Those that were told, and as many more as fit, in their order; how many those are that do not, told as one. */
function withoutCrowd(found: ReadonlyMap<string, Finding>, open: Open): Map<string, Finding> {
  let told = Object.keys(open).filter((key) => key !== crowdKey).length;
  const fitting = new Map<string, Finding>();
  for (const [key, finding] of found) {
    const isNew = !(key in open);
    if (isNew && told >= maxOpen[finding.severity]) continue;
    if (isNew) told += 1;
    fitting.set(key, finding);
  }
  const left = found.size - fitting.size;
  return left === 0 ? fitting : fitting.set(crowdKey, crowd(left));
}

function auditEntryOf(id: string, { at, what, check, severity, subject, text }: HealthEvent): AuditEntry {
  return {
    id,
    at,
    requestId: id,
    actor: { kind: 'service', name: clusterActor },
    action: `${what} :subject: :text`,
    params: { check, subject, text },
    from: { address: '' },
    outcome: what === 'ended' ? 'ended' : severity,
    changes: [],
  };
}
