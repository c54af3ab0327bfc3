/** Answers the generic API: the same few things for every kind. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { ServerEvent } from '@flynn/kit/routes';
import { checkList, checkWrite, mayRead } from '@flynn/resource/access';
import type { Caller } from '@flynn/kit/http-gate';
import type { Asking } from '@flynn/resource/access';
import { fieldIssuesOf, refusal } from '@flynn/resource/record';
import type { Owner, Resource } from '@flynn/resource/type';
import type { ResourceFilter } from '@flynn/resource/watch';
import type { z } from 'zod';
import type { Deps } from '../deps.ts';
import { resumePoint } from '../event-stream.ts';
import { principalOf } from '../access/principal.ts';
import { askingOf } from './access.ts';
import { generic } from './api.ts';
import type { AppliedView, GenericObject, WantedBody } from './api.ts';
import { isEqual, merged, overlaid } from './difference.ts';
import type { Applied, ApplyContext, Kind, Wanted } from './kind.ts';
import { applyPlain, findObject } from './plain.ts';
import { readMany, readOne } from './reader.ts';
import { viewKind, viewObject } from './view.ts';

type Params = { group: string; version: string; kind: string };
type Found = Resource<unknown, unknown>;

export function genericHandlers(deps: Deps): Handler[] {
  const { kinds, resources } = deps;
  return [
    handle(generic.kinds, async () => kinds.all().map(viewKind)),
    handle(generic.list, async (call) => {
      const { query, signal } = call;
      const kind = kinds.resolve(call.params);
      checkList(kind.type, askingOf(call));
      const filter = await filterOf(deps, query, signal);
      const found = await resources.list(kind.type, { ...filter, where: labelsIn(query.labels), signal });
      const read = readMany(resources, signal);
      const shown = await Promise.all(
        found
          .filter((resource) => mayRead(kind.type, askingOf(call), resource))
          .map((resource) => viewObject(deps, kind, resource, read)),
      );
      return shown.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    }),
    handle(generic.get, async (call) => {
      const kind = kinds.resolve(call.params);
      const found = await getObject(deps, kind, call.params.name, askingOf(call), call.signal);
      return viewObject(deps, kind, found, readOne(resources, call.signal));
    }),
    handle(generic.apply, async ({ params, body, query, signal, caller }) =>
      apply(deps, params, body, {
        isDryRun: query.dryRun ?? false,
        assumed: listOf(query.assume),
        signal,
        ...(caller && { caller }),
      }),
    ),
    handle(generic.put, async ({ params, body, query, signal, caller }) => {
      if (body.name !== undefined && body.name !== params.name) {
        throw refusal(params.name, [{ path: 'name', message: `the path says ${params.name}` }]);
      }
      const named = { ...body, name: params.name };
      const context = {
        isDryRun: query.dryRun ?? false,
        assumed: listOf(query.assume),
        signal,
        ...(caller && { caller }),
      };
      return apply(deps, params, named, context);
    }),
    handle(generic.patch, async (call) => {
      const { params, body, query, signal, caller } = call;
      const kind = kinds.resolve(params);
      const found = await getObject(deps, kind, params.name, askingOf(call), signal);
      const before = await viewObject(deps, kind, found, readOne(resources, signal));
      const { spec, ...rest } = body;
      const wanted = kind.appliesPatches ? overlaid(before.spec, spec ?? {}) : merged(before.spec, spec ?? {});
      const patched = { ...Object(merged({ labels: before.labels }, rest)), spec: wanted };
      const next = generic.put.body.parse({ name: before.name, ...Object(patched) });
      // The patch is of what was read: whoever was faster is asked for again by the caller.
      const isOfRevision = kind.writes === 'plain' || kind.appliesPatches;
      const at = isOfRevision ? { metadata: { revision: found.revision, ...body.metadata } } : {};
      const context = {
        isDryRun: query.dryRun ?? false,
        assumed: listOf(query.assume),
        signal,
        ...(caller && { caller }),
      };
      return apply(deps, params, { ...next, ...at }, context);
    }),
    handle(generic.setStatus, async (call) => {
      const { params, body, signal } = call;
      const kind = kinds.resolve(params);
      const found = await getObject(deps, kind, params.name, askingOf(call), signal);
      checkWrite(kind.type, askingOf(call), found.owner, found);
      if (kind.writes !== 'plain') {
        throw new FlynnError('denied', `the status of a ${kind.type.name} is the platform's own to tell`);
      }
      const { revision, status, conditions, observedGeneration } = body;
      const reported = await resources.change(
        kind.type,
        found.id,
        () => ({
          ...(status === undefined ? {} : { status }),
          ...(conditions === undefined ? {} : { conditions }),
          ...(observedGeneration === undefined ? {} : { observedGeneration }),
        }),
        { signal, expectUid: found.uid, ...(revision === undefined ? {} : { expectRevision: revision }) },
      );
      return viewObject(deps, kind, reported, readOne(resources, signal));
    }),
    handle(generic.remove, async (call) => {
      const { params, signal } = call;
      const kind = kinds.resolve(params);
      const found = await getObject(deps, kind, params.name, askingOf(call), signal);
      checkWrite(kind.type, askingOf(call), found.owner, found);
      checkWritable(kind);
      kind.checkRemoval?.(found);
      // Seen before it goes: what a view tells of it is gone with it.
      const object = await viewObject(deps, kind, found, readOne(resources, signal));
      const last = await resources.delete(kind.type, found.id, { signal, expectUid: found.uid });
      if (last.finalizers.length === 0) return { outcome: 'deleted' as const, object };
      const { deletingSince, waitingFor, finalizers, revision } = last;
      const since = deletingSince === undefined ? {} : { deletingSince };
      const metadata = { ...object.metadata, revision, finalizers: [...finalizers], waitingFor, ...since };
      return { outcome: 'deleting' as const, object: { ...object, outlook: 'deleting', metadata } };
    }),
    handle(generic.watch, async (call) => {
      const kind = kinds.resolve(call.params);
      checkList(kind.type, askingOf(call));
      const filter = await filterOf(deps, call.query, call.signal);
      const isWanted = labelsIn(call.query.labels);
      const isShown = (resource: Found) => isWanted(resource) && mayRead(kind.type, askingOf(call), resource);
      return watch(deps, kind, { filter, isShown, after: resumePoint(call.headers), signal: call.signal });
    }),
  ];
}

async function getObject(deps: Deps, kind: Kind, name: string, asking: Asking, signal: AbortSignal): Promise<Found> {
  const found = await findObject(deps, kind, name, signal);
  // What somebody may not see is not there for them.
  if (found !== undefined && mayRead(kind.type, asking, found)) return found;
  throw new FlynnError(
    'not_found',
    `there is no ${kind.type.name} "${name}"; list them with: flynn get ${kind.type.name}`,
    {
      detail: { type: kind.type.name, name },
    },
  );
}

type WriteContext = {
  isDryRun: boolean;
  assumed: readonly string[];
  signal: AbortSignal;
  caller?: Caller;
};

async function apply(deps: Deps, params: Params, body: WantedBody, context: WriteContext): Promise<AppliedView> {
  const { isDryRun, signal } = context;
  const kind = deps.kinds.resolve(params);
  checkWritable(kind);
  const what = `${kind.type.name} ${body.name ?? ''}`.trimEnd();
  const current = body.name === undefined ? undefined : await findObject(deps, kind, body.name, signal);
  const owner = body.owner === undefined ? undefined : await ownerNamed(deps, body.owner, what, context);
  checkWrite(kind.type, askingOf(context), current?.owner ?? owner, current);
  const revision = body.metadata?.revision;
  // Whoever has an old copy is told that, rather than what differs in it.
  const isCurrent = revision === undefined || revision === current?.revision;
  if (body.status !== undefined && isCurrent) await checkStatus(deps, kind, what, current, body.status, signal);
  const wanted: Wanted<unknown> = {
    ...(body.name === undefined ? {} : { name: body.name }),
    ...(owner === undefined ? {} : { owner }),
    ...(body.labels === undefined ? {} : { labels: body.labels }),
    ...(revision === undefined ? {} : { revision }),
    spec: body.spec,
  };
  const applied = await inSpec(kind, () =>
    bringAbout(deps, kind, what, wanted, { isDryRun, signal, ...userOf(context) }),
  );
  const outcome = applied.isNew ? 'created' : applied.changes.length > 0 ? 'configured' : 'unchanged';
  const view: AppliedView = {
    outcome,
    name: applied.name,
    changes: [...applied.changes],
    ...(applied.deploymentId === undefined ? {} : { deploymentId: applied.deploymentId }),
    notes: [...(applied.notes ?? [])],
  };
  if (isDryRun) return view;
  const after = await findObject(deps, kind, applied.name, signal);
  if (after === undefined) return view;
  return { ...view, object: await viewObject(deps, kind, after, readOne(deps.resources, signal)) };
}

function userOf({ caller }: WriteContext): { userId?: string } {
  const { userId } = principalOf(caller === undefined ? {} : { caller });
  return userId === undefined ? {} : { userId };
}

async function bringAbout(
  deps: Deps,
  kind: Kind,
  what: string,
  wanted: Wanted<unknown>,
  context: ApplyContext,
): Promise<Applied> {
  if (kind.writes === 'plain' || kind.apply === undefined) return applyPlain(deps, kind, wanted, context);
  const { data, error } = kind.wanted?.safeParse(wanted.spec) ?? {};
  if (error !== undefined) throw refusal(what, fieldIssuesOf(error));
  return kind.apply(deps, { ...wanted, spec: data }, context);
}

/** Paths of what is wrong with a spec, told as they are in the document. */
async function inSpec<T>(kind: Kind, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!hasCode(error, 'invalid') || !Array.isArray(error.detail['issues'])) throw error;
    const issues: { path: string; message: string }[] = error.detail['issues'].map(({ path, message }) => ({
      path: placeOf(kind, String(path)),
      message: String(message),
    }));
    const [headline = ''] = error.message.split(' is not valid:');
    throw refusal(headline, issues);
  }
}

function placeOf({ type }: Kind, path: string): string {
  if (path === 'owner' || path === 'name' || path === type.nameField) return path === 'owner' ? path : 'name';
  return path === '' ? 'spec' : `spec.${path}`;
}

function checkWritable(kind: Kind): void {
  if (kind.writes !== 'none') return;
  throw new FlynnError('denied', `a ${kind.type.name} is not made or changed here: it comes with what it is of`);
}

async function checkStatus(
  deps: Deps,
  kind: Kind,
  what: string,
  current: Found | undefined,
  status: Record<string, unknown>,
  signal: AbortSignal,
): Promise<void> {
  const known =
    current === undefined
      ? kind.type.initialStatus()
      : (await viewObject(deps, kind, current, readOne(deps.resources, signal))).status;
  if (isEqual(known, status)) return;
  throw refusal(what, [{ path: 'status', message: 'it is not written with the rest: leave it out, or PUT …/status' }]);
}

/** `app/shop`: the kind by what people call it, then a name or an id. */
async function ownerNamed(
  { kinds, resources }: Deps,
  text: string,
  what: string,
  { assumed, isDryRun, signal }: WriteContext,
): Promise<Owner> {
  const [, kindName = '', name = ''] = /^([^/]+)\/(.+)$/.exec(text) ?? [];
  const kind = kinds.named(kindName.toLowerCase());
  if (kind === undefined) {
    throw refusal(what, [{ path: 'owner', message: `"${text}" is no object: write KIND/NAME, like app/shop` }]);
  }
  const { type } = kind;
  try {
    const { id, uid } = await resources.lookup(type, name, { signal });
    return { type: type.name, id, uid };
  } catch (error) {
    if (!hasCode(error, 'not_found')) throw error;
    if (isDryRun && assumed.includes(`${type.name}/${name}`)) return { type: type.name, id: name };
    throw refusal(what, [{ path: 'owner', message: `there is no ${type.name} "${name}"` }]);
  }
}

type FilterQuery = z.output<typeof generic.list.query>;

async function filterOf(deps: Deps, query: FilterQuery, signal: AbortSignal): Promise<ResourceFilter> {
  const { owner, prefix, name } = query;
  const context = { isDryRun: false, assumed: [], signal };
  return {
    ...(owner === undefined ? {} : { owner: await ownerNamed(deps, owner, 'the filter', context) }),
    ...(prefix === undefined ? {} : { namePrefix: prefix }),
    ...(name === undefined ? {} : { object: name }),
  };
}

function labelsIn(text: string | undefined): (resource: Pick<Found, 'labels'>) => boolean {
  const pairs = (text ?? '').split(',').filter((part) => part !== '');
  const wanted = pairs.map((pair): [string, string] => {
    const [, name, value = ''] = /^([^=]+)=(.*)$/.exec(pair) ?? [];
    if (name === undefined) throw new FlynnError('invalid', `"${pair}" is no label: write NAME=VALUE,NAME=VALUE`);
    return [name, value];
  });
  return ({ labels }) => wanted.every(([name, value]) => labels[name] === value);
}

async function* watch(
  deps: Deps,
  kind: Kind,
  options: {
    filter: ResourceFilter;
    isShown: (resource: Found) => boolean;
    after: number | undefined;
    signal: AbortSignal;
  },
): AsyncGenerator<ServerEvent> {
  const { filter, isShown, after, signal } = options;
  const events = deps.resources.watch(kind.type, {
    filter,
    signal,
    withOwned: kind.showsOwned,
    ...(after === undefined ? {} : { after }),
  });
  // All there are at first, then one now and then.
  let read = after === undefined ? readMany(deps.resources, signal) : readOne(deps.resources, signal);
  for await (const event of events) {
    const id = event.resumeAfter === undefined ? {} : { id: String(event.resumeAfter) };
    if (event.type === 'current') {
      read = readOne(deps.resources, signal);
      yield { ...id, event: event.type, data: null };
      continue;
    }
    if (!isShown(event.resource)) continue;
    const data: GenericObject = await viewObject(deps, kind, event.resource, read);
    yield { ...id, event: event.type, data };
  }
}

function listOf(value: string | readonly string[] | undefined): readonly string[] {
  if (value === undefined) return [];
  return typeof value === 'string' ? [value] : value;
}
