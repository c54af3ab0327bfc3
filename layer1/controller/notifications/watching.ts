/**
 * What is to be told now that was not told before? Pure: of what the doctor finds, of deployments and of updates as they are,
 * and of what was told so far.
 *
 * INVARIANTS. What is told and that it was told are written down at once: the state that is planned has its messages, until they
 * are in the queues of all they are for. Nothing is evaluated here: what is wrong is what the doctor says.
 */
import { z } from 'zod';
import { dueInMs } from '../clocks/due.ts';
import type { HealthEvent } from '../health/api.ts';
import { alertSchema, blindMs, planAlerts } from './alerts.ts';
import { idOf, messageSchema } from './message.ts';
import type { Message } from './message.ts';

/** After a day without any worker nobody wants to know of each deployment. */
const staleMs = 24 * 3_600_000;
/** Clocks differ, and a deployment's end is written a while after its time. */
const lateMs = 15 * 60_000;
/** An update that went back is told by two programs, one right after the other. */
const updateSettleMs = 30_000;

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
  const alerts = planAlerts(
    state.alerts,
    { lookedMs, open: seen.health?.open ?? [] },
    now,
    room - update.messages.length,
  );
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
