/** Making it so: what somebody wants of an object is judged, checked and brought about by its kind. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Caller } from '@flynn/kit/http-gate';
import { checkWrite, mayRead } from '@flynn/resource/access';
import { fieldIssuesOf, refusal } from '@flynn/resource/record';
import type { z } from 'zod';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import type { Deps } from '../deps.ts';
import { CallerAsking } from './access.ts';
import { generic } from './api.ts';
import type { AppliedView, GenericObject, WantedBody } from './api.ts';
import { fieldOf, isEqual, merged, overlaid } from './difference.ts';
import type { Applied, ApplyContext, Kind, Wanted } from './kind.ts';
import { ownerNamed } from './objects.ts';
import type { Found } from './objects.ts';
import { applyPlain, findObject } from './plain.ts';
import { readOne } from './reader.ts';
import { viewObject } from './view.ts';

type Params = { group: string; version: string; kind: string };
type Call = Readonly<{ query: z.output<typeof generic.apply.query>; signal: AbortSignal; caller?: Caller }>;

export function writeContextOf(deps: Deps, call: Call): WriteContext {
  const { query, signal } = call;
  const asking = new CallerAsking(deps, call);
  return {
    isDryRun: query.dryRun ?? false,
    assumed: listOf(query.assume),
    signal,
    asking,
    principal: principalOf(call),
  };
}

/** Of kinds with rules of their own only what the patch names is asked for: the rest stays as it is by then. */
export function patchedBody(kind: Kind, before: GenericObject, body: z.output<typeof generic.patch.body>): WantedBody {
  const { spec, labels } = body;
  if (kind.appliesPatches) {
    const overlay = { name: before.name, spec: overlaid(before.spec, spec ?? {}), ...(labels && { labels }) };
    return generic.put.body.parse(overlay);
  }
  const all: unknown = merged(
    { labels: before.labels, spec: before.spec },
    { ...(labels && { labels }), ...(spec && { spec }) },
  );
  const next = generic.put.body.parse({ name: before.name, ...Object(all) });
  if (kind.writes !== 'own') return next;
  const named = Object.keys(spec ?? {});
  const { labels: nextLabels, ...rest } = next;
  return {
    ...rest,
    ...(labels === undefined ? {} : { labels: nextLabels }),
    // What is to go is told as null, for the kind to say what that means.
    spec: Object.fromEntries(named.map((name) => [name, fieldOf(next.spec, name) ?? null])),
  };
}

type WriteContext = Readonly<{
  isDryRun: boolean;
  assumed: readonly string[];
  signal: AbortSignal;
  asking: CallerAsking;
  principal: Principal;
}>;

export async function apply(deps: Deps, params: Params, body: WantedBody, context: WriteContext): Promise<AppliedView> {
  const { isDryRun, assumed, signal } = context;
  const kind = deps.kinds.resolve(params);
  checkWritable(kind);
  const what = `${kind.type.name} ${body.name ?? ''}`.trimEnd();
  const current = body.name === undefined ? undefined : await findObject(deps, kind, body.name, signal);
  const { asking } = context;
  const owner = body.owner === undefined ? undefined : await ownerNamed(deps, body.owner, what, context);
  await asking.learn([...(current === undefined ? [] : [current]), ...(owner === undefined ? [] : [owner])], signal);
  // What somebody may not see is not there for them: not even a refusal tells of it.
  if (current !== undefined && !mayRead(kind.type, asking, current)) {
    throw new FlynnError('denied', `${asking.name} may not change objects of kind ${kind.type.kind}`);
  }
  checkWrite(kind.type, asking, current?.owner ?? owner, current);
  const revision = body.metadata?.revision;
  // Whoever has an old copy is told that, rather than what differs in it.
  const isCurrent = revision === undefined || revision === current?.revision;
  if (!isCurrent && kind.writes === 'own') throw atOtherRevision(what, current?.revision, revision);
  if (body.status !== undefined && isCurrent) await checkStatus(deps, kind, what, current, body.status, signal);
  const wanted: Wanted<unknown> = {
    ...(body.name === undefined ? {} : { name: body.name }),
    ...(owner === undefined ? {} : { owner }),
    ...(body.labels === undefined ? {} : { labels: body.labels }),
    ...(revision === undefined ? {} : { revision }),
    spec: body.spec,
  };
  const applied = await inSpec(kind, () =>
    bringAbout(deps, kind, what, wanted, { isDryRun, assumed, signal, principal: context.principal }),
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

function atOtherRevision(what: string, now: number | undefined, wanted: number | undefined): FlynnError {
  const is = now === undefined ? 'was deleted' : `is at revision ${now}, not ${wanted}`;
  return new FlynnError('conflict', `${what} ${is}: read it again and repeat the change`);
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
  if (kind.writes === 'none') throw comesWithOthers(kind, 'made or changed');
}

export function comesWithOthers(kind: Kind, done: string): FlynnError {
  return new FlynnError('denied', `a ${kind.type.name} is not ${done} here: it comes with what it is of`);
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

function listOf(value: string | readonly string[] | undefined): readonly string[] {
  if (value === undefined) return [];
  return typeof value === 'string' ? [value] : value;
}
