/** Everything that changes, in the order it changed: resources and jobs out of one watch, so that one revision resumes all. */
import type { ServerEvent } from '@flynn/kit/routes';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { resourcePrefix } from '@flynn/resource/keys';
import { decodeResource } from '@flynn/resource/record';
import { cellKeys, jobStatusSchema } from '@flynn/scheduler/cell';
import type { JobStatus } from '@flynn/scheduler/cell';
import { decodeJson } from '@flynn/store/codec';
import { RestoredError } from '@flynn/store/store';
import type { Change, Entry } from '@flynn/store/store';
import { seenStatuses, valuesOf } from '../mirrors/cell-view.ts';
import { appIdOf } from '../processes/compile.ts';
import type { Deps } from '../deps.ts';
import { withRevisions } from './event-stream.ts';
import { jobOfStatus } from '../jobs/views.ts';
import type { ControllerEvent } from '../model.ts';
import type { EventView } from '../access/event-view.ts';
import { historyPrefix } from '../operations/records.ts';
import {
  appType,
  deploymentType,
  formationType,
  keyType,
  operationType,
  releaseType,
  routeType,
} from '../resources.ts';
import { viewApp, viewDeployment, viewFormation, viewKey, viewOperation, viewRelease, viewRoute } from '../views.ts';

export type Kind = Exclude<ControllerEvent['event'], 'current'>;
export type Shown = { appId?: string; object: unknown };

/** Above every key that is told. */
const rootPrefix = '/flynn/';

const kinds: Record<Kind, { prefix: string; show: (entry: Entry) => Shown }> = {
  app: { prefix: resourcePrefix(appType.name), show: (entry) => appShown(viewApp(decodeResource(appType, entry))) },
  release: {
    prefix: resourcePrefix(releaseType.name),
    show: (entry) => owned(viewRelease(decodeResource(releaseType, entry))),
  },
  formation: {
    prefix: resourcePrefix(formationType.name),
    show: (entry) => owned(viewFormation(decodeResource(formationType, entry))),
  },
  deployment: {
    prefix: resourcePrefix(deploymentType.name),
    show: (entry) => owned(viewDeployment(decodeResource(deploymentType, entry))),
  },
  job: {
    prefix: cellKeys.status,
    show: (entry) => owned(jobOfStatus(decodeJson(jobStatusSchema, entry.value, entry.key))),
  },
  route: {
    prefix: resourcePrefix(routeType.name),
    show: (entry) => owned(viewRoute(decodeResource(routeType, entry))),
  },
  key: { prefix: resourcePrefix(keyType.name), show: (entry) => ({ object: viewKey(decodeResource(keyType, entry)) }) },
  operation: {
    prefix: resourcePrefix(operationType.name),
    show: (entry) => owned(viewOperation(decodeResource(operationType, entry))),
  },
};
const kindNames = Object.keys(kinds) as Kind[];

/** Of operations those that ended are told as they end; the state that comes first has the live ones. */
function kindOf(key: string): Kind | undefined {
  if (key.startsWith(historyPrefix)) return 'operation';
  return kindNames.find((name) => key.startsWith(kinds[name].prefix));
}

function owned(object: { appId: string }): Shown {
  return { appId: object.appId, object };
}

function appShown(object: { id: string }): Shown {
  return { appId: object.id, object };
}

export type EventFilter = {
  appId: string | undefined;
  types: ReadonlySet<Kind>;
  /** What of it the caller gets to see. */
  view: EventView;
};

/** Reads `types=app,route`. Throws `invalid` naming the types there are. */
export function parseTypes(text: string | undefined): ReadonlySet<Kind> {
  if (text === undefined || text === '') return new Set(kindNames);
  return new Set(
    text.split(',').map((name) => {
      const kind = kindNames.find((known) => known === name.trim());
      if (kind !== undefined) return kind;
      throw new FlynnError(
        'invalid',
        `there are no events of type "${name.trim()}": choose from ${kindNames.join(', ')}`,
      );
    }),
  );
}

/** The current state, `current`, then changes; resumed after a revision, the changes since. */
export async function* controllerEvents(
  deps: Deps,
  filter: EventFilter,
  options: { after: number | undefined; signal: AbortSignal },
): AsyncGenerator<ServerEvent> {
  const { signal } = options;
  const translate = translator(filter);
  let from = options.after;
  if (from === undefined) {
    for (const kind of filter.types) {
      const listing = await deps.store.list(kinds[kind].prefix, {
        signal,
        ...(from === undefined ? {} : { revision: from }),
      });
      from ??= listing.revision;
      for (const entry of listing.entries) {
        const event = translate({ type: 'put', entry });
        if (event !== undefined) yield event;
      }
    }
    yield* awayEvents(deps, filter, { revision: from ?? 0, signal });
    yield { id: String(from ?? 0), event: 'current', data: { type: 'put', id: 'current' } };
  } else {
    await recall(deps, filter, translate, { after: from, signal });
    yield* awayEvents(deps, filter, { revision: from, signal });
  }
  for await (const batch of deps.store.watch(rootPrefix, { after: from ?? 0, signal })) {
    yield* withRevisions(batch, translate);
    const hostIds = hostsInQuestion(deps, batch.changes);
    yield* awayEvents(deps, filter, { revision: batch.revision, hostIds, signal });
  }
}

/** A deletion tells nothing but the key: whose it was, and whether it was shown, is what was there as the stream broke to say. */
async function recall(
  { store }: Pick<Deps, 'store'>,
  { types }: EventFilter,
  translate: Translate,
  { after, signal }: { after: number; signal: AbortSignal },
): Promise<void> {
  // What may be seen of the rest is the apps' to say.
  for (const kind of new Set<Kind>(['app', ...types])) {
    const listing = await store.list(kinds[kind].prefix, { revision: after, signal }).catch((error: unknown) => {
      // What the watch would say: of what was told nothing is known any more.
      throw hasCode(error, 'invalid') ? new RestoredError(after) : error;
    });
    for (const entry of listing.entries) translate({ type: 'put', entry });
  }
}

/** What is to be read of jobs on hosts that are away, of all or of those in question: nobody writes their statuses any more. */
async function* awayEvents(
  { cell, store }: Pick<Deps, 'cell' | 'store'>,
  { appId, types, view }: EventFilter,
  at: { revision: number; hostIds?: ReadonlySet<string>; signal: AbortSignal },
): AsyncGenerator<ServerEvent> {
  const { revision, signal } = at;
  if (!types.has('job') || at.hostIds?.size === 0) return;
  const isShown = (id: string) => (appId === undefined || id === appId) && view.canSee(id);
  const isOpen = ({ workloadId, isFinal }: JobStatus) => !isFinal && isShown(appIdOf(workloadId));
  // Waiting for mirrors takes time, so first: is there anything to wait for?
  const { entries } = await store.list(cellKeys.hosts, { signal });
  const present = new Set(entries.map(({ key }) => key.slice(cellKeys.hosts.length)));
  const isTold = (status: JobStatus) =>
    isOpen(status) && !present.has(status.hostId) && at.hostIds?.has(status.hostId) !== false;
  if (!valuesOf(cell.statuses).some(isTold)) return;
  await Promise.all([cell.hosts, cell.assignments].map((mirror) => mirror.reached(revision, { signal })));
  for (const status of seenStatuses(cell, isTold)) {
    const job = jobOfStatus(status);
    yield { event: 'job', data: { type: 'put', id: job.id, appId: job.appId, object: job } };
  }
}

/** Hosts that went, and those that are away already and that jobs are taken from. */
function hostsInQuestion({ cell }: Pick<Deps, 'cell'>, changes: readonly Change[]): ReadonlySet<string> {
  const ids = changes.flatMap((change) => {
    const key = change.type === 'put' ? change.entry.key : change.key;
    if (key.startsWith(cellKeys.hosts)) return change.type === 'delete' ? [key.slice(cellKeys.hosts.length)] : [];
    if (!key.startsWith(cellKeys.assignments)) return [];
    const [hostId = ''] = key.slice(cellKeys.assignments.length).split('/');
    return cell.hosts.snapshot.entries.has(hostId) ? [] : [hostId];
  });
  return new Set(ids);
}

type Translate = (change: Change) => ServerEvent | undefined;

/** Remembers which app an object belonged to, because a deletion tells nothing but the key. */
function translator(filter: EventFilter): Translate {
  const appOf = new Map<string, string | undefined>();
  return (change) => {
    const key = change.type === 'put' ? change.entry.key : change.key;
    const kind = kindOf(key);
    if (kind === 'app' && change.type === 'put') filter.view.learn(viewApp(decodeResource(appType, change.entry)));
    // It went to the history in the same transaction, which tells the rest.
    if (kind === 'operation' && change.type === 'delete' && !key.startsWith(historyPrefix)) {
      appOf.delete(key);
      return undefined;
    }
    if (kind === undefined || !filter.types.has(kind)) return undefined;
    const id = key.slice(key.lastIndexOf('/') + 1);
    const shown = change.type === 'put' ? filter.view.show(kind, kinds[kind].show(change.entry)) : undefined;
    // What was not shown is not told to be gone either.
    if (change.type === 'put' && shown === undefined) return undefined;
    const wasShown = appOf.has(key) || filter.view.isAll;
    const appId = shown?.appId ?? appOf.get(key);
    if (change.type === 'put') appOf.set(key, appId);
    else appOf.delete(key);
    if (change.type === 'delete' && !wasShown) return undefined;
    if (filter.appId !== undefined && appId !== filter.appId) return undefined;
    const data: ControllerEvent['data'] = {
      type: change.type,
      id,
      ...(appId === undefined ? {} : { appId }),
      ...(shown === undefined ? {} : { object: shown.object }),
    };
    return { event: kind, data };
  };
}
