/** Looks what there is to tell, and puts it into the queues of those who are to be told. */
import { readLastUpdate } from '@flynn/host-agent/cluster/last-update';
import { FlynnError, ifFound } from '@flynn/kit/errors';
import type { Compare } from '@flynn/store/store';
import { decodeJson } from '@flynn/store/codec';
import type { Deps } from '../deps.ts';
import { isCovered } from '../certificates/domains.ts';
import { certificateType } from '../certificates/resources.ts';
import { readHealthState } from '../health/events.ts';
import { resourceType } from '../providers/types.ts';
import { appType, releaseType, routeType } from '../resources.ts';
import type { AppResource, DeploymentResource } from '../resources.ts';
import { idOf, isWanted } from './message.ts';
import type { Addressed, Message } from './message.ts';
import { enqueue, enqueueBeat, maxWaiting, roomIn } from './queue.ts';
import type { Queue } from './queue.ts';
import { notificationType } from './types.ts';
import type { NotificationResource } from './types.ts';
import { firstState, isNewDeployment, plan, watchStateSchema } from './watching.ts';
import type { EndedDeployment, Seen, WatchState } from './watching.ts';

/** What was told so far. */
export const watchStateKey = '/flynn-notifications/state';

type WatchDeps = Pick<Deps, 'store' | 'resources' | 'now'> & {
  deployments: { snapshot: { entries: Iterable<readonly [string, Readonly<{ value: DeploymentResource }>]> } };
};
type Options = Readonly<{ signal: AbortSignal; epoch?: Compare | undefined }>;

/**
 * One look. What is to be told is written down first, then put into the queues, then forgotten: whoever dies in between has
 * whoever follows put it there again, with the same ids, which the queues know.
 */
export async function stepWatching(deps: WatchDeps, options: Options): Promise<void> {
  const { store, resources, now } = deps;
  const { signal, epoch } = options;
  const receivers = await resources.list(notificationType, { signal });
  const entry = await store.get(watchStateKey, { signal });
  if (receivers.length === 0) {
    // Who is the first to be told later is told of what is so then.
    if (entry !== undefined)
      await store.transact({ compare: compares(epoch), then: [{ delete: watchStateKey }] }, { signal });
    return;
  }
  const update = await readLastUpdate(store, signal);
  const before = entry === undefined ? undefined : decodeJson(watchStateSchema, entry.value, watchStateKey);
  const seat = new StateSeat(deps, before, entry?.modRevision ?? 0, options);
  const state = before ?? firstState({ update }, Math.min(...receivers.map(({ createdAt }) => Date.parse(createdAt))));
  const room = roomFor(receivers, now()) - state.outbox.length;
  await seat.write(plan(state, await seenNow(deps, state, update, signal), now(), room));
  await distribute(deps, seat, receivers, options);
  // Only now: it says that what is to be told is looked for, and finds its way.
  await forEach(receivers, (receiver) => beat(deps, receiver, options));
}

/** How many messages all have room for that keep up. */
function roomFor(receivers: readonly NotificationResource[], now: number): number {
  return Math.min(maxWaiting, ...receivers.map(({ status }) => roomIn(status, now) ?? maxWaiting));
}

/** Does it for all, and rejects then as the first that failed did: what ails one receiver holds up no other. */
async function forEach<T>(all: readonly T[], act: (one: T) => Promise<void>): Promise<void> {
  const failed: unknown[] = [];
  for (const one of all) {
    try {
      await act(one);
    } catch (error) {
      failed.push(error);
    }
  }
  if (failed.length > 0) throw failed[0];
}

/** The state as this look knows it; what somebody else wrote meanwhile is a `conflict`. */
class StateSeat {
  readonly #store: WatchDeps['store'];
  readonly #options: Options;
  #revision: number;
  state: WatchState | undefined;

  constructor({ store }: WatchDeps, state: WatchState | undefined, revision: number, options: Options) {
    this.#store = store;
    this.#options = options;
    this.#revision = revision;
    this.state = state;
  }

  async write(next: WatchState): Promise<void> {
    const { signal, epoch } = this.#options;
    const value = JSON.stringify(next);
    if (value === JSON.stringify(this.state)) return;
    const { succeeded, revision } = await this.#store.transact(
      {
        compare: [{ key: watchStateKey, modRevision: this.#revision }, ...compares(epoch)],
        then: [{ put: watchStateKey, value }],
      },
      { signal },
    );
    if (!succeeded) throw new FlynnError('conflict', 'somebody else looks what to notify of');
    this.#revision = revision;
    this.state = next;
  }
}

async function distribute(
  deps: WatchDeps,
  seat: StateSeat,
  receivers: readonly NotificationResource[],
  options: Options,
): Promise<void> {
  const { state } = seat;
  if (state === undefined || state.outbox.length === 0) return;
  const directory = await openDirectory(deps, options.signal);
  const addressed = state.outbox.map(({ message, appId }): Addressed => {
    return { message, appIds: appId === undefined ? directory.appsOf(message) : [appId] };
  });
  await forEach(receivers, (receiver) => put(deps, receiver, addressed, options));
  await seat.write({ ...state, outbox: [] });
}

function compares(epoch: Compare | undefined): Compare[] {
  return epoch === undefined ? [] : [epoch];
}

async function put(
  { resources, now }: WatchDeps,
  { id, spec }: NotificationResource,
  addressed: readonly Addressed[],
  { signal, epoch }: Options,
): Promise<void> {
  const isOwn = ({ subject }: Message): boolean => subject.kind === 'notification' && subject.name === spec.name;
  // That it cannot be told is of no use to it.
  const wanted = addressed.filter((one) => isWanted(one, spec) && !isOwn(one.message));
  if (wanted.length === 0) return;
  const withAll = ({ status }: NotificationResource) =>
    wanted.reduce((queue: Queue, { message }) => enqueue(queue, message, now()), status);
  // One that was removed meanwhile is to be told nothing.
  await ifFound(
    resources.updateStatus(notificationType, id, withAll, { signal, also: () => ({ compare: compares(epoch) }) }),
  );
}

/** Tells who wants to hear it that somebody is there to tell. */
async function beat(
  { resources, store, now }: WatchDeps,
  { id, spec, status }: NotificationResource,
  { signal, epoch }: Options,
): Promise<void> {
  const everyMs = spec.everyMinutes * 60_000;
  const dueMs = Math.floor(now() / everyMs) * everyMs;
  const lastMs = status.heartbeatMs ?? 0;
  // One of a later moment than the next is of a clock that was ahead: whoever listens for the pulse is not to wait for that.
  const isSent = lastMs >= dueMs && lastMs <= dueMs + everyMs;
  if (!spec.on.includes('heartbeat') || status.isRestored || isSent) return;
  const open = Object.values((await readHealthState(store, signal))?.open ?? {});
  const grave = open.filter(({ severity }) => severity === 'critical').length;
  const message: Message = {
    id: idOf('heartbeat', id, String(dueMs)),
    type: 'heartbeat',
    about: 'heartbeat',
    at: new Date(dueMs).toISOString(),
    severity: 'info',
    subject: { kind: 'cluster', name: 'heartbeat' },
    title: 'the cluster is looked after',
    text: `${open.length} findings, ${grave} of them critical`,
  };
  const withBeat = (current: NotificationResource) => enqueueBeat(current.status, message, now(), everyMs);
  await ifFound(
    resources.updateStatus(notificationType, id, withBeat, { signal, also: () => ({ compare: compares(epoch) }) }),
  );
}

async function seenNow(deps: WatchDeps, state: WatchState, update: Seen['update'], signal: AbortSignal): Promise<Seen> {
  const health = await readHealthState(deps.store, signal);
  return {
    health: health === undefined ? undefined : { lookedMs: health.teller.at, open: Object.values(health.open) },
    deployments: await endedDeployments(deps, state, signal),
    update,
  };
}

async function endedDeployments(deps: WatchDeps, state: WatchState, signal: AbortSignal): Promise<EndedDeployment[]> {
  const found: EndedDeployment[] = [];
  for (const [, { value }] of deps.deployments.snapshot.entries) {
    const ended = endOf(value);
    if (ended === undefined || !isNewDeployment(state, { id: value.id, endedAt: ended.endedAt }, deps.now())) continue;
    const [app, release] = await Promise.all([
      deps.resources.find(appType, value.spec.appId, { signal }),
      deps.resources.find(releaseType, value.spec.newReleaseId, { signal }),
    ]);
    // Of an app that is gone nobody is told.
    if (app === undefined) continue;
    found.push({ id: value.id, app: { id: app.id, name: app.spec.name }, version: release?.spec.version, ...ended });
  }
  return found.toSorted((a, b) => (a.endedAt < b.endedAt ? -1 : 1));
}

function endOf({ status }: DeploymentResource): Pick<EndedDeployment, 'hasFailed' | 'error' | 'endedAt'> | undefined {
  const { state, endedAt, error } = status;
  if (endedAt === undefined || (state !== 'complete' && state !== 'failed')) return undefined;
  return { hasFailed: state === 'failed', error, endedAt };
}

/** Which apps a finding is of: its own, those that have a database, those whose routes a certificate is for. */
async function openDirectory({ resources }: Pick<WatchDeps, 'resources'>, signal: AbortSignal) {
  const [apps, provided, routes, certificates] = await Promise.all([
    resources.list(appType, { signal }),
    resources.list(resourceType, { signal }),
    resources.list(routeType, { signal }),
    resources.list(certificateType, { signal }),
  ]);
  const named = new Map(apps.map((app): [string, AppResource] => [app.spec.name, app]));
  // A certificate is told by the first of its names.
  const namesOf = (first: string): string[] => {
    const own = certificates.filter(({ spec: { domains } }) => domains[0] === first);
    return [...new Set([first, ...own.flatMap(({ spec }) => spec.domains)])];
  };
  return {
    appsOf({ subject, app }: Message): string[] {
      const own = app === undefined ? undefined : named.get(app)?.id;
      const having = provided
        .filter(({ status }) => own !== undefined && status.externalId === own)
        .flatMap(({ spec }) => spec.apps.map(({ appId }) => appId));
      const names = subject.kind === 'certificate' ? namesOf(subject.name) : [];
      const routed = routes
        .filter(({ spec }) => names.some((name) => isCovered(name, spec.domain ?? '')))
        .map(({ spec }) => spec.appId);
      return [...new Set([...(own === undefined ? [] : [own]), ...having, ...routed])];
    },
  };
}
