/** Answers the generic API: the same few things for every kind. */
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { checkList, checkWrite, mayRead } from '@flynn/resource/access';
import { refusal } from '@flynn/resource/record';
import type { ResourceFilter } from '@flynn/resource/watch';
import type { z } from 'zod';
import type { Deps } from '../deps.ts';
import { resumeAfter } from '../platform/event-stream.ts';
import { CallerAsking } from './access.ts';
import { generic } from './api.ts';
import { getObject, ownerNamed, showObject } from './objects.ts';
import { readMany, readOne } from './reader.ts';
import { viewKind, viewObject } from './view.ts';
import { watchObjects } from './watching.ts';
import { apply, comesWithOthers, patchedBody, writeContextOf } from './writing.ts';

export function genericHandlers(deps: Deps): Handler[] {
  const { kinds, resources } = deps;
  return [
    handle(generic.kinds, async () => kinds.all().map(viewKind)),
    handle(generic.list, async (call) => {
      const { query, signal } = call;
      const kind = kinds.resolve(call.params);
      const asking = new CallerAsking(deps, call);
      checkList(kind.type, asking);
      const filter = await filterOf(deps, query, asking, signal);
      const found = await resources.list(kind.type, { ...filter, signal });
      await asking.learn(found, signal);
      const read = readMany(resources, signal);
      const shown = await Promise.all(
        found
          .filter((resource) => mayRead(kind.type, asking, resource))
          .map((resource) => showObject(deps, kind, resource, { read, asking })),
      );
      return shown.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    }),
    handle(generic.get, async (call) => {
      const kind = kinds.resolve(call.params);
      const asking = new CallerAsking(deps, call);
      const found = await getObject(deps, kind, call.params.name, asking, call.signal);
      return showObject(deps, kind, found, { read: readOne(resources, call.signal), asking });
    }),
    handle(generic.apply, async (call) => apply(deps, call.params, call.body, writeContextOf(deps, call))),
    handle(generic.put, async (call) => {
      const { params, body } = call;
      if (body.name !== undefined && body.name !== params.name) {
        throw refusal(params.name, [{ path: 'name', message: `the path says ${params.name}` }]);
      }
      return apply(deps, params, { ...body, name: params.name }, writeContextOf(deps, call));
    }),
    handle(generic.patch, async (call) => {
      const { params, body, signal } = call;
      const kind = kinds.resolve(params);
      const context = writeContextOf(deps, call);
      const found = await getObject(deps, kind, params.name, context.asking, signal);
      const before = await viewObject(deps, kind, found, readOne(resources, signal));
      const patched = patchedBody(kind, before, body);
      // The patch is of what was read: whoever was faster is asked for again by the caller.
      const revision = body.metadata?.revision ?? found.revision;
      return apply(deps, params, { ...patched, metadata: { revision } }, context);
    }),
    handle(generic.setStatus, async (call) => {
      const { params, body, signal } = call;
      const kind = kinds.resolve(params);
      const asking = new CallerAsking(deps, call);
      const found = await getObject(deps, kind, params.name, asking, signal);
      checkWrite(kind.type, asking, found.owner, found);
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
      const asking = new CallerAsking(deps, call);
      const found = await getObject(deps, kind, params.name, asking, signal);
      checkWrite(kind.type, asking, found.owner, found);
      if (!kind.isRemovable) throw comesWithOthers(kind, 'deleted');
      kind.checkRemoval?.(found, asking);
      // Seen before it goes: what a view tells of it is gone with it.
      const object = await viewObject(deps, kind, found, readOne(resources, signal));
      if (kind.remove !== undefined) {
        await kind.remove(deps, found, signal);
        return { outcome: 'deleted' as const, object };
      }
      const last = await resources.delete(kind.type, found.id, { signal, expectUid: found.uid });
      if (last.finalizers.length === 0) return { outcome: 'deleted' as const, object };
      const { deletingSince, waitingFor, finalizers, revision } = last;
      const since = deletingSince === undefined ? {} : { deletingSince };
      const metadata = { ...object.metadata, revision, finalizers: [...finalizers], waitingFor, ...since };
      return { outcome: 'deleting' as const, object: { ...object, outlook: 'deleting', metadata } };
    }),
    handle(generic.watch, async (call) => {
      const kind = kinds.resolve(call.params);
      const asking = new CallerAsking(deps, call);
      checkList(kind.type, asking);
      const filter = await filterOf(deps, call.query, asking, call.signal);
      const after = await resumeAfter(deps.store, call.headers, call.signal);
      return watchObjects(deps, kind, { filter, asking, after, signal: call.signal });
    }),
  ];
}

type FilterQuery = z.output<typeof generic.list.query>;

async function filterOf(
  deps: Deps,
  query: FilterQuery,
  asking: CallerAsking,
  signal: AbortSignal,
): Promise<ResourceFilter> {
  const { owner, prefix, name, labels } = query;
  const context = { isDryRun: false, assumed: [], signal, asking };
  return {
    ...(owner === undefined ? {} : { owner: await ownerNamed(deps, owner, 'the filter', context) }),
    ...(prefix === undefined ? {} : { namePrefix: prefix }),
    ...(name === undefined ? {} : { object: name }),
    labels: labelsIn(labels),
  };
}

function labelsIn(text: string | undefined): Record<string, string> {
  const pairs = (text ?? '').split(',').filter((part) => part !== '');
  return Object.fromEntries(
    pairs.map((pair): [string, string] => {
      const [, name, value = ''] = /^([^=]+)=(.*)$/.exec(pair) ?? [];
      if (name === undefined) throw new FlynnError('invalid', `"${pair}" is no label: write NAME=VALUE,NAME=VALUE`);
      return [name, value];
    }),
  );
}
