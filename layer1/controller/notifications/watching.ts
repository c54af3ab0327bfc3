/**
 * What is to be told now that was not told before? Pure: of what the doctor finds, of deployments and of updates as they are,
 * and of what was told so far.
 *
 * INVARIANTS. What is told and that it was told are written down at once: the state that is planned has its messages, until they
 * are in the queues of all they are for. Nothing is evaluated here: what is wrong is what the doctor says.
 */
import { severities } from '@flynn/host-agent/doctor/finding';
import { z } from 'zod';
import { dueInMs } from '../due.ts';
import type { HealthEvent } from '../health/api.ts';
import { hiddenBy, withMatters } from '../health/event-keys.ts';
import { idOf, messageSchema, subjectSchema } from './message.ts';
import type { EventType, FindingGroup, Message, Subject } from './message.ts';

/** What passes within this is not told; what is back within that has not ended. */
export const settle = { beginMs: 60_000, endMs: 5 * 60_000 } as const;
const repeatMs = 24 * 3_600_000;
/** After a day without any worker nobody wants to know of each deployment. */
const staleMs = 24 * 3_600_000;
/** Whoever looks how the cluster is does so every minute; one that looks anew, and as far from now, has another clock. */
const blindMs = 5 * 60_000;
/** Clocks differ, and a deployment's end is written a while after its time. */
const lateMs = 15 * 60_000;
/** An update that went back is told by two programs, one right after the other. */
const updateSettleMs = 30_000;

const alertSchema = z.object({
  check: z.string(),
  /** The worst that was told, or is to be. */
  severity: z.enum(severities),
  subject: z.string(),
  app: z.string().optional(),
  isAway: z.literal(true).optional(),
  matter: z.string().optional(),
  text: z.string(),
  remedy: z.string().optional(),
  /** When it was first seen: with what it is of this makes the ids of its messages. Milliseconds since the epoch, as all here. */
  seenMs: z.number(),
  /** Since when it is not seen any more. */
  missingMs: z.number().optional(),
  /** When it was told, and last told again. Of one that is not there: it may yet pass. */
  toldMs: z.number().optional(),
  repeatedMs: z.number().optional(),
});
type Alert = Readonly<z.output<typeof alertSchema>>;

export const watchStateSchema = z.object({
  /** Since when is told at all: what was before is not. */
  sinceMs: z.number(),
  alerts: z.record(z.string(), alertSchema),
  /** The newest end of a deployment that was dealt with, and which were lately: others may yet be heard of late. */
  deployments: z.object({ untilMs: z.number(), lately: z.record(z.string(), z.number()) }),
  /** When the last update ended that was told, or was there to begin with. */
  updateAt: z.string().optional(),
  /** A look that is far later or earlier than now, and when it was heard of: it counts as of then. */
  ahead: z.object({ lookedMs: z.number(), heardMs: z.number() }).optional(),
  /** What is to go into queues, or may be there already. `appId`: of a deployment; the apps of findings are found by them. */
  outbox: z.array(z.object({ message: messageSchema, appId: z.string().optional() })),
});
export type WatchState = Readonly<z.output<typeof watchStateSchema>>;

export type EndedDeployment = Readonly<{
  id: string;
  app: { id: string; name: string };
  version: number | undefined;
  hasFailed: boolean;
  error?: string | undefined;
  endedAt: string;
}>;

export type EndedUpdate = Readonly<{
  version: string;
  previous?: string | undefined;
  /** `unknown`: a later version wrote it, which nothing is told of. */
  outcome: 'moved' | 'back' | 'partly' | 'unknown';
  at: string;
}>;

export type Seen = Readonly<{
  /** What is wrong, and when somebody last looked; undefined before anybody did. */
  health: { lookedMs: number; open: readonly Omit<HealthEvent, 'what'>[] } | undefined;
  deployments: readonly EndedDeployment[];
  update: EndedUpdate | undefined;
}>;

/** Of somebody who is told since then: of what is wrong already, too, but of nothing that ended before. */
export function firstState({ update }: Pick<Seen, 'update'>, sinceMs: number): WatchState {
  const isKnown = update !== undefined && Date.parse(update.at) < sinceMs;
  return {
    sinceMs,
    alerts: {},
    deployments: { untilMs: sinceMs, lately: {} },
    ...(isKnown ? { updateAt: update.at } : {}),
    outbox: [],
  };
}

/** The state as it is to be, with what is to be told then in its outbox. `room`: of more messages the next look tells. */
export function plan(before: WatchState, seen: Seen, now: number, room: number): WatchState {
  const state = withoutFuture(before, now);
  const update = room > 0 ? planUpdate(state, seen.update, now) : { next: {}, messages: [] };
  const ahead = aheadOf(state, seen.health, now);
  const lookedMs = ahead?.heardMs ?? seen.health?.lookedMs ?? state.sinceMs;
  const alerts = planAlerts(state, { lookedMs, open: seen.health?.open ?? [] }, now, room - update.messages.length);
  const left = room - update.messages.length - alerts.messages.length;
  const deployments = planDeployments(state, seen.deployments, now, left);
  const ofCluster = [...alerts.messages, ...update.messages].map((message) => ({ message }));
  const { ahead: _before, ...rest } = state;
  return {
    ...rest,
    alerts: alerts.next,
    deployments: deployments.next,
    ...(ahead === undefined ? {} : { ahead }),
    ...update.next,
    outbox: [...state.outbox, ...ofCluster, ...deployments.messages],
  };
}

/** What was written down by a clock that was ahead was no later than now: else nothing would be told until it is that late. */
function withoutFuture(state: WatchState, now: number): WatchState {
  const earlier = (ms: number): number => Math.min(ms, now);
  const alerts = Object.entries(state.alerts).map(([key, { missingMs, toldMs, repeatedMs, ...alert }]) => [
    key,
    {
      ...alert,
      seenMs: earlier(alert.seenMs),
      ...(missingMs === undefined ? {} : { missingMs: earlier(missingMs) }),
      ...(toldMs === undefined ? {} : { toldMs: earlier(toldMs) }),
      ...(repeatedMs === undefined ? {} : { repeatedMs: earlier(repeatedMs) }),
    },
  ]);
  const deployments = { ...state.deployments, untilMs: earlier(state.deployments.untilMs) };
  const { ahead } = state;
  return {
    ...state,
    sinceMs: earlier(state.sinceMs),
    alerts: Object.fromEntries(alerts),
    deployments,
    ...(ahead === undefined ? {} : { ahead: { ...ahead, heardMs: earlier(ahead.heardMs) } }),
  };
}

/**
 * Whoever looks with a clock that is ahead, or behind, still looks as long as it is heard of anew; else it looks no more. The
 * first look that is long ago counts as written: mostly nobody has looked since.
 */
function aheadOf(state: WatchState, health: Seen['health'], now: number): WatchState['ahead'] {
  if (health === undefined || Math.abs(health.lookedMs - now) < blindMs) return undefined;
  const { lookedMs } = health;
  if (state.ahead?.lookedMs === lookedMs) return state.ahead;
  return { lookedMs, heardMs: state.ahead === undefined ? Math.min(lookedMs, now) : now };
}

/** Which deployments are to be looked at: not those of before or of long ago, nor those that were dealt with. */
export function isNewDeployment(
  { sinceMs, deployments: { untilMs, lately } }: Pick<WatchState, 'sinceMs' | 'deployments'>,
  { id, endedAt }: Readonly<{ id: string; endedAt: string }>,
  now: number,
): boolean {
  const fromMs = Math.max(sinceMs, Math.min(untilMs, now) - lateMs, now - staleMs);
  return Date.parse(endedAt) >= fromMs && lately[id] === undefined;
}

function planDeployments(state: WatchState, ended: readonly EndedDeployment[], now: number, room: number) {
  const fresh = ended.filter((one) => isNewDeployment(state, one, now)).slice(0, Math.max(0, room));
  if (fresh.length === 0) return { next: state.deployments, messages: [] };
  const ends = fresh.map(({ id, endedAt }): [string, number] => [id, Date.parse(endedAt)]);
  // A clock that is ahead must not have what ends after it passed over.
  const untilMs = Math.max(state.deployments.untilMs, ...ends.map(([, endedMs]) => Math.min(endedMs, now)));
  const lately = [...Object.entries(state.deployments.lately), ...ends].filter(([, ms]) => ms >= untilMs - lateMs);
  return {
    next: { untilMs, lately: Object.fromEntries(lately) },
    messages: fresh.map((one) => ({ message: deploymentMessage(one), appId: one.app.id })),
  };
}

function deploymentMessage({ id, app, version, hasFailed, error, endedAt }: EndedDeployment): Message {
  const release = version === undefined ? 'a release' : `v${version}`;
  return {
    id: idOf('deployment', id),
    type: hasFailed ? 'deployment.failed' : 'deployment.succeeded',
    about: `deployment ${app.id}`,
    at: endedAt,
    severity: hasFailed ? 'warning' : 'info',
    subject: { kind: 'app', name: app.name },
    app: app.name,
    title: `${app.name}: ${release} ${hasFailed ? 'could not be deployed' : 'is live'}`,
    text: hasFailed ? `the deployment of ${release} failed: ${error ?? 'nobody said why'}` : `${release} is deployed`,
    ...(hasFailed
      ? {
          todo: `flynn deployment -a ${app.name} and flynn log -a ${app.name} tell more; what was live before still is`,
        }
      : {}),
  };
}

function planUpdate(
  { updateAt }: WatchState,
  update: EndedUpdate | undefined,
  now: number,
): { next: Pick<WatchState, 'updateAt'>; messages: Message[] } {
  if (update === undefined || update.at === updateAt) return { next: {}, messages: [] };
  if (dueInMs(Date.parse(update.at) + updateSettleMs, now, 2 * updateSettleMs) > 0) return { next: {}, messages: [] };
  const { version, previous, outcome, at } = update;
  if (outcome === 'unknown') return { next: { updateAt: at }, messages: [] };
  const common = {
    id: idOf('update', at),
    about: 'update',
    at,
    subject: { kind: 'cluster', name: version },
  } as const;
  const before = previous === undefined ? 'the one before' : previous;
  const message: Message =
    outcome === 'moved'
      ? {
          ...common,
          type: 'update.succeeded',
          severity: 'info',
          title: `the cluster is of version ${version} now`,
          text: `all hosts and all parts of the platform were moved to version ${version}`,
        }
      : {
          ...common,
          type: 'update.failed',
          severity: 'critical',
          title: `the update to version ${version} failed`,
          text:
            outcome === 'back'
              ? `the cluster went back to version ${before}, and is as it was`
              : `the cluster is partly of version ${version}`,
          todo:
            outcome === 'back'
              ? 'what flynn-host update printed tells which step failed'
              : 'flynn doctor tells which host is at it and how it is gone on with',
        };
  return { next: { updateAt: at }, messages: [message] };
}

type Open = Pick<Alert, 'check' | 'severity' | 'subject' | 'app' | 'isAway' | 'matter' | 'text' | 'remedy'>;

type Health = NonNullable<Seen['health']>;

function planAlerts(state: WatchState, { lookedMs, open: wrong }: Health, now: number, room: number) {
  const isBlind = now - lookedMs >= blindMs;
  const before = withMatters(Object.values(state.alerts), wrong, alertKey);
  const sharp = withMatters(wrong, before, alertKey);
  const open = openOf(isBlind ? [...sharp, blindFinding(lookedMs)] : sharp);
  const alerts = new Map(before.map((alert): [string, Alert] => [alertKey(alert), alert]));
  const isHidden = hiddenBy([...open.values()]);
  const away = new Set([...open.values()].flatMap(({ isAway, subject }) => (isAway === true ? [subject] : [])));
  // Nobody knows what ended while nobody looks, nor of a host that is away what else ended there.
  const mayEnd = (alert: Alert): boolean =>
    !isBlind && !isHidden(alert) && (alert.isAway === true || !away.has(alert.subject));
  const gravest = (key: string): number => ((open.get(key) ?? alerts.get(key))?.severity === 'critical' ? 0 : 1);
  const keys = [...new Set([...alerts.keys(), ...open.keys()])].toSorted((a, b) => gravest(a) - gravest(b));
  const next: Record<string, Alert> = {};
  const messages: Message[] = [];
  for (const key of keys) {
    const found = open.get(key);
    const known = alerts.get(key);
    const stepped =
      found !== undefined
        ? stepFound(key, found, known, now)
        : known === undefined
          ? {}
          : stepMissing(known, { mayEnd: mayEnd(known), now });
    const isTold = stepped.message === undefined || messages.length < room;
    const alert = isTold ? stepped.alert : known;
    if (alert !== undefined) next[key] = alert;
    if (isTold && stepped.message !== undefined) messages.push(stepped.message);
  }
  return { next, messages };
}

type Stepped = { alert?: Alert; message?: Message };

function stepFound(key: string, found: Open, known: Alert | undefined, now: number): Stepped {
  if (known === undefined) return { alert: { ...found, seenMs: now } };
  const { missingMs: _back, ...before } = known;
  const isWorse = known.toldMs !== undefined && known.severity === 'warning' && found.severity === 'critical';
  const severity = known.severity === 'critical' && known.toldMs !== undefined ? 'critical' : found.severity;
  const alert = { ...before, ...found, severity };
  if (alert.toldMs === undefined || isWorse) {
    if (now - alert.seenMs < settle.beginMs) return { alert };
    return {
      alert: { ...alert, toldMs: now, repeatedMs: now },
      message: alertMessage(key, alert, 'began', { at: now, mark: severity }),
    };
  }
  if (now - (alert.repeatedMs ?? alert.toldMs) < repeatMs) return { alert };
  return {
    alert: { ...alert, repeatedMs: now },
    message: alertMessage(key, alert, 'lasts', { at: now, mark: String(alert.repeatedMs) }),
  };
}

function stepMissing(known: Alert, { mayEnd, now }: { mayEnd: boolean; now: number }): Stepped {
  if (!mayEnd) {
    const { missingMs: _unknown, ...alert } = known;
    return { alert };
  }
  const missingMs = known.missingMs ?? now;
  if (now - missingMs < settle.endMs) return { alert: { ...known, missingMs } };
  if (known.toldMs === undefined) return {};
  return { message: alertMessage(alertKey(known), known, 'ended', { at: missingMs, mark: '' }) };
}

/** Of the same thing the worst: that it is less grave than it was is not its end. */
function openOf(all: readonly Open[]): Map<string, Open> {
  const open = new Map<string, Open>();
  for (const { check, severity, subject, app, isAway, matter, text, remedy } of all) {
    const one = {
      check,
      severity,
      subject,
      ...(app === undefined ? {} : { app }),
      ...(isAway === undefined ? {} : { isAway }),
      ...(matter === undefined ? {} : { matter }),
      text,
      ...(remedy === undefined ? {} : { remedy }),
    };
    const key = alertKey(one);
    if (open.get(key)?.severity !== 'critical') open.set(key, one);
  }
  return open;
}

/** A host that is away is another matter than what the same check finds on it. */
function alertKey({ check, subject, app, isAway, matter }: Omit<Open, 'severity' | 'text' | 'remedy'>): string {
  const which = `${isAway === true ? ' away' : ''}${matter === undefined ? '' : ` (${matter})`}`;
  return `${check}${which} ${subject}${app === undefined ? '' : ` ${app}`}`;
}

/** Whoever would tell of what is wrong is not heard of: the workers are the ones to tell that. */
function blindFinding(lookedMs: number): Open {
  return {
    check: 'controller',
    severity: 'critical',
    subject: 'the controller',
    text: `nobody looks how the cluster is: the last look was at ${new Date(lookedMs).toISOString()}`,
    remedy: 'flynn-host doctor and flynn-host ps on a host: does a job of controller web run there?',
  };
}

type Phase = 'began' | 'lasts' | 'ended';

const typesOf: Readonly<Record<FindingGroup, Readonly<Record<Phase, EventType>>>> = {
  finding: { began: 'finding.began', lasts: 'finding.lasts', ended: 'finding.ended' },
  host: { began: 'host.lost', lasts: 'host.lasts', ended: 'host.back' },
  backup: { began: 'backup.failed', lasts: 'backup.lasts', ended: 'backup.recovered' },
  certificate: { began: 'certificate.failed', lasts: 'certificate.lasts', ended: 'certificate.recovered' },
  app: { began: 'app.failing', lasts: 'app.lasts', ended: 'app.recovered' },
};

function alertMessage(key: string, alert: Alert, phase: Phase, { at, mark }: { at: number; mark: string }): Message {
  const { severity, subject, text, remedy, seenMs } = alert;
  const about = subjectOf(subject);
  const app = alert.app ?? (about.kind === 'app' || about.kind === 'database' ? about.name : undefined);
  const named = alert.app === undefined ? subject : `${alert.app} on ${subject}`;
  const titles = {
    began: `${named}: ${text}`,
    lasts: `still: ${named}: ${text}`,
    ended: `over: ${named}`,
  };
  return {
    id: idOf('alert', key, String(seenMs), phase, mark),
    type: typesOf[groupOf(alert)][phase],
    about: `alert ${key}`,
    at: new Date(at).toISOString(),
    severity,
    subject: alert.app === undefined ? about : { kind: 'app', name: alert.app },
    ...(app === undefined ? {} : { app }),
    title: shortened(titles[phase]),
    text: phase === 'ended' ? `this is no longer so: ${text}` : text,
    ...(phase === 'ended' || remedy === undefined ? {} : { todo: remedy }),
    since: new Date(seenMs).toISOString(),
  };
}

/** By the check that found it. */
function groupOf({ check, app, isAway, subject }: Alert): FindingGroup {
  if (isAway === true) return 'host';
  if (check === 'backups' || check === 'databases') return 'backup';
  if (check === 'certificates') return 'certificate';
  const isOfApp = app !== undefined || subject.startsWith('app ');
  return isOfApp && (check === 'drift' || check === 'work') ? 'app' : 'finding';
}

/** Findings name what they are about as people read it: `host h1`, `app shop (web)`, `database db`. */
function subjectOf(text: string): Subject {
  const [, sort, name = ''] = /^(\w+) (\S+)/.exec(text) ?? [];
  const kind = subjectSchema.shape.kind.safeParse(sort).data;
  return kind === undefined ? { kind: 'component', name: text } : { kind, name };
}

const maxTitle = 160;

function shortened(text: string): string {
  return text.length > maxTitle ? `${text.slice(0, maxTitle)}…` : text;
}
