/**
 * Looks at the repositories that apps follow, now and then, and pushes what is new.
 *
 * INVARIANTS. A look is one operation whose id follows from how many there were: whoever asks for it, and however often,
 * it is there once. A commit is pushed under an id that follows from how many were before it, and written down after
 * that: interrupted in between, the same push is found again. While the app has operations, nothing is looked at.
 */
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Again } from '@flynn/resource/reconciler';
import type { Compare } from '@flynn/store/store';
import { isSamePlace, placeIn, placeOf } from '../builds/place.ts';
import type { BuildPlace } from '../builds/place.ts';
import { forLiveApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { dueInMs } from '../clocks/due.ts';
import { insideNetworks } from '../hosts/inside-networks.ts';
import { createOnce } from '../operations/intake.ts';
import { removeEnded } from '../operations/pruning.ts';
import { chainOf } from '../operations/queue.ts';
import { findOperation } from '../operations/records.ts';
import { hasOperationEnded } from '../operations/state.ts';
import { appType } from '../resources.ts';
import type { AppResource, OperationResource } from '../resources.ts';
import { sourceType } from './resource.ts';
import type { SourceResource } from './resource.ts';
import { checkOutside, hostOfSource } from './url.ts';

/** An operation nobody takes for so long is given up: the next look is as good. */
const expireMs = 15 * 60_000;
const longestBackoffMs = 60 * 60_000;
const longestWaitMs = 30_000;
const busyMs = 2_000;
const spread = 0.1;

type Options = { signal: AbortSignal; epoch: Compare; random?: () => number };
type Status = SourceResource['status'];

/** One step for the app's source. */
export async function stepSource(deps: Deps, id: string, options: Options): Promise<void | Again> {
  const { signal } = options;
  const source = await deps.resources.find(sourceType, id, { signal });
  if (source === undefined) return;
  const app = await deps.resources.find(appType, source.spec.appId, { signal });
  if (app === undefined || app.deletingSince !== undefined) return;
  const { pollId, nextMs, isWanted = false } = source.status;
  if (pollId !== undefined) {
    const poll = await findOperation(deps.store, pollId, { signal });
    // Its end is told.
    if (poll !== undefined && !hasOperationEnded(poll.status.state)) return { againInMs: longestWaitMs };
    await settle(deps, { source, app }, poll, options);
    return { againInMs: 0 };
  }
  const waitMs = isWanted ? 0 : dueInMs(nextMs, deps.now(), longestOf(source.spec) * (1 + spread));
  if (waitMs > 0) return { againInMs: Math.min(waitMs, longestWaitMs) };
  if (deps.queue.ofApp(app.id).length > 0) return { againInMs: busyMs };
  await begin(deps, { source, app }, options);
  return { againInMs: longestWaitMs };
}

/** What is followed, and by whom. */
type Following = { source: SourceResource; app: AppResource };

async function begin(deps: Deps, { source, app }: Following, options: Options): Promise<void> {
  const { signal } = options;
  const { appId, url, branch, isOpen } = source.spec;
  const { polls, commit = '' } = source.status;
  let addresses: string[] | undefined;
  let place: BuildPlace;
  try {
    place = placeOf(app.spec.meta);
    if (!isOpen) addresses = await checkOutside(hostOfSource(url), await insideNetworks(deps, signal), signal);
  } catch (error) {
    if (!hasCode(error, 'denied', 'unavailable', 'invalid')) throw error;
    const next = missed(deps, source, messageOf(error), options);
    await write(deps, source, { ...next, isWanted: false }, options);
    return;
  }
  const id = `poll-${source.uid}-${polls}`;
  const expiresAt = new Date(deps.now() + expireMs).toISOString();
  const told = { url, branch, commit, ...place };
  const input = addresses === undefined ? told : { ...told, addresses: addresses.join(',') };
  const spec = { appId, kind: 'poll' as const, pushId: id, input };
  // One that is there already may have looked by now: who wants one since gets another.
  const isNew = (await findOperation(deps.store, id, { signal })) === undefined;
  await forLiveApp(deps, appId, signal, (app) => createOnce(deps, app, [{ id, spec, expiresAt }], signal));
  const { isWanted = false } = source.status;
  await write(deps, source, { ...source.status, pollId: id, isWanted: isWanted && !isNew }, options);
}

/** What came of a look, and when there will be another. */
async function settle(
  deps: Deps,
  { source, app }: Following,
  poll: OperationResource | undefined,
  options: Options,
): Promise<void> {
  const { signal, epoch } = options;
  const { spec, status } = source;
  const found = poll?.status.state === 'complete' ? poll.status.output : undefined;
  // What was looked at may be followed no longer.
  const isFollowed = poll?.spec.input['url'] === spec.url && poll.spec.input['branch'] === spec.branch;
  const place = placeIn(poll?.spec.input ?? {});
  const isCurrent = isFollowed && isBuiltFrom(app, place);
  const anew = { ...status, polls: status.polls + 1, pollId: undefined, lastPollId: poll?.id, nextMs: 0 };
  let next: Status;
  if (!isCurrent && poll !== undefined) next = anew;
  else if (found === undefined) {
    next = missed(deps, source, poll?.status.error ?? 'the look at the repository was lost', options);
  } else if (found['sourceDigest'] !== undefined && found['folder'] !== place.folder)
    next = missed(deps, source, ofBefore, options);
  else next = (await taken(deps, source, { ...found, ...place }, options)) ?? anew;
  await write(deps, source, next, options);
  // Of looks only the last is kept: they must not push builds out of the history.
  const old = [status.lastPollId].flatMap((id) => id ?? []);
  await removeEnded(deps.store, old, { signal, epoch });
}

/** What it sent is the whole repository. */
const ofBefore =
  'a runner of a version before looked, which knows of no folder to build from: another look is made, and "flynn runner" tells which are not up to date';

/** Whether the app is still to be built from there. */
function isBuiltFrom({ spec }: AppResource, place: BuildPlace): boolean {
  try {
    return isSamePlace(placeOf(spec.meta), place);
  } catch (error) {
    if (!hasCode(error, 'invalid')) throw error;
    return false;
  }
}

function missed(deps: Deps, { spec, status }: SourceResource, error: string, { random }: Options): Status {
  const failures = status.failures + 1;
  const backoffMs = Math.min(spec.everyMs * 2 ** Math.min(failures, 10), longestOf(spec));
  return { ...after(deps, status, backoffMs, random), failures, error };
}

/** Undefined where the app has come to be built from elsewhere since it was read. */
async function taken(
  deps: Deps,
  { uid, spec, status }: SourceResource,
  { commit = '', sourceDigest, ...more }: Readonly<Record<string, string>>,
  { signal, random }: Options,
): Promise<Status | undefined> {
  const seen = { ...after(deps, status, spec.everyMs, random), failures: 0, error: undefined };
  if (sourceDigest === undefined || commit === status.commit) return seen;
  const pushId = `source-${uid}-${status.pushes}-${commit}`;
  const place = placeIn(more);
  const input = { sourceDigest, commit, branch: spec.branch, ...place };
  const pushed = await forLiveApp(deps, spec.appId, signal, async (app) => {
    if (!isBuiltFrom(app, place)) return undefined;
    const chain = chainOf(app.id, pushId).map(({ id, ...one }) => ({
      id,
      spec: { ...one, appId: app.id, pushId, input },
    }));
    return createOnce(deps, app, chain, signal);
  });
  return pushed === undefined ? undefined : { ...seen, commit, pushId, pushes: status.pushes + 1 };
}

function longestOf({ everyMs }: SourceResource['spec']): number {
  return Math.max(longestBackoffMs, everyMs);
}

/** Up to a tenth sooner or later, so that all apps of a cluster do not ask one server at once. */
function after({ now }: Deps, status: Status, waitMs: number, random: () => number = Math.random): Status {
  const polledMs = now();
  const nextMs = polledMs + Math.round(waitMs * (1 - spread + 2 * spread * random()));
  const { pollId } = status;
  return {
    ...status,
    polls: status.polls + 1,
    pollId: undefined,
    lastPollId: pollId ?? status.lastPollId,
    polledMs,
    nextMs,
  };
}

/** Who was faster, somebody who follows another branch from now on say, is looked at again. */
async function write(deps: Deps, source: SourceResource, next: Status, { signal, epoch }: Options): Promise<void> {
  await deps.resources.updateStatus(sourceType, source.id, () => next, {
    signal,
    expectRevision: source.revision,
    expectUid: source.uid,
    also: () => ({ compare: [epoch] }),
  });
}
