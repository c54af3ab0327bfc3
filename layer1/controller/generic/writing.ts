/** Making it so: what somebody wants of an object is judged, checked and brought about by its kind. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Caller } from '@flynn/kit/http-gate';
import { checkWrite, mayRead } from '@flynn/resource/access';
import { fieldIssuesOf, refusal } from '@flynn/resource/record';
import type { Owner } from '@flynn/resource/type';
import type { z } from 'zod';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import type { Deps } from '../deps.ts';
import { CallerAsking } from './access.ts';
import { generic } from './api.ts';
import type { AppliedView, GenericObject, WantedBody } from './api.ts';
import { fieldOf, isEqual, merged, overlaid } from './difference.ts';
import type { Applied, ApplyContext, Kind, Target, Wanted } from './kind.ts';
import { ownerNamed } from './objects.ts';
import type { Found } from './objects.ts';
import { applyPlain, findObject, plainTarget } from './plain.ts';
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

const maxAttempts = 8;

export async function apply(deps: Deps, params: Params, body: WantedBody, context: WriteContext): Promise<AppliedView> {
  const kind = deps.kinds.resolve(params);
  checkWritable(kind);
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await applyOnce(deps, kind, body, context);
    } catch (error) {
      // Made or changed by somebody else in between: it is judged anew. What the caller expects of it is for the caller to give up.
      const isOvertaken = kind.writes === 'plain' && hasCode(error, 'conflict') && error.detail['key'] !== undefined;
      if (!isOvertaken || body.metadata?.revision !== undefined || attempt >= maxAttempts) throw error;
    }
  }
}

async function applyOnce(deps: Deps, kind: Kind, body: WantedBody, context: WriteContext): Promise<AppliedView> {
  const { isDryRun, assumed, signal, principal } = context;
  const what = `${kind.type.name} ${body.name ?? ''}`.trimEnd();
  const revision = body.metadata?.revision;
  const { current, wanted } = await judged(deps, kind, what, body, context);
  // Whoever has an old copy is told that, rather than what differs in it.
  const isCurrent = revision === undefined || revision === current?.revision;
  if (!isCurrent && kind.writes === 'own') throw atOtherRevision(what, current?.revision, revision);
  if (body.status !== undefined && isCurrent) await checkStatus(deps, kind, what, current, body.status, signal);
  const applied = await inSpec(kind, () =>
    bringAbout(deps, kind, wanted, { isDryRun, assumed, signal, principal, current }),
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

/** What is acted on and what is wanted of it, once whoever asks may: the kind gets what is judged here, and nothing else. */
async function judged(
  deps: Deps,
  kind: Kind,
  what: string,
  body: WantedBody,
  context: WriteContext,
): Promise<Pick<ApplyContext, 'current'> & { wanted: Wanted<unknown> }> {
  const { asking, signal } = context;
  const named = body.name === undefined ? undefined : await findObject(deps, kind, body.name, signal);
  await checkSeen(kind, named, context);
  const given = body.owner === undefined ? undefined : await ownerNamed(deps, body.owner, what, context);
  const asked = wantedOf(kind, what, body, given);
  const { current, owner: told } = await inSpec(kind, () => targetOf(deps, kind, asked, { named, asking, signal }));
  // Said of one that is somebody else's and of none alike.
  if (named !== undefined && current?.id !== named.id) {
    const message = `this ${kind.type.name} is another than the rest says: leave the name out, or give what that one has`;
    throw refusal(what, [{ path: 'name', message }]);
  }
  await checkSeen(kind, current, context);
  if (given !== undefined && told !== undefined && (given.type !== told.type || given.id !== told.id)) {
    throw refusal(what, [{ path: 'owner', message: `it belongs to another by its name: leave the owner out` }]);
  }
  const owner = given ?? told;
  if (owner !== undefined) await asking.learn([owner], signal);
  checkWrite(kind.type, asking, current?.owner ?? owner, current);
  return { current, wanted: owner === undefined ? asked : { ...asked, owner } };
}

/** What somebody may not see is not there for them: not even a refusal tells of it. */
async function checkSeen({ type }: Kind, object: Found | undefined, { asking, signal }: WriteContext): Promise<void> {
  if (object === undefined) return;
  await asking.learn([object], signal);
  if (mayRead(type, asking, object)) return;
  throw new FlynnError('denied', `${asking.name} may not change objects of kind ${type.kind}`);
}

function wantedOf(kind: Kind, what: string, body: WantedBody, owner: Owner | undefined): Wanted<unknown> {
  const revision = body.metadata?.revision;
  // Of plain ones it is checked by the type, with what is not the spec's.
  const { data, error } = kind.writes === 'own' ? (kind.wanted?.safeParse(body.spec) ?? {}) : { data: body.spec };
  if (error !== undefined) throw inDocument(kind, refusal(what, fieldIssuesOf(error)));
  return {
    ...(body.name === undefined ? {} : { name: body.name }),
    ...(owner === undefined ? {} : { owner }),
    ...(body.labels === undefined ? {} : { labels: body.labels }),
    ...(revision === undefined ? {} : { revision }),
    spec: data,
  };
}

async function targetOf(
  deps: Deps,
  kind: Kind,
  wanted: Wanted<unknown>,
  { named, ...context }: { named: Found | undefined; asking: CallerAsking; signal: AbortSignal },
): Promise<Target> {
  if (kind.target !== undefined) return kind.target(deps, wanted, context);
  return { current: kind.writes === 'plain' ? await plainTarget(deps, kind, wanted, context.signal) : named };
}

async function bringAbout(deps: Deps, kind: Kind, wanted: Wanted<unknown>, context: ApplyContext): Promise<Applied> {
  return kind.apply === undefined ? applyPlain(deps, kind, wanted, context) : kind.apply(deps, wanted, context);
}

/** Paths of what is wrong with a spec, told as they are in the document. */
async function inSpec<T>(kind: Kind, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw inDocument(kind, error);
  }
}

function inDocument(kind: Kind, error: unknown): unknown {
  if (!hasCode(error, 'invalid') || !Array.isArray(error.detail['issues'])) return error;
  const issues: { path: string; message: string }[] = error.detail['issues'].map(({ path, message }) => ({
    path: placeOf(kind, String(path)),
    message: String(message),
  }));
  const [headline = ''] = error.message.split(' is not valid:');
  return refusal(headline, issues);
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
