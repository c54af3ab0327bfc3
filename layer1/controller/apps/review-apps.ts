/** Review apps: copies of an app that go by themselves, and of which there are never too many. Known by their metadata. */
import { FlynnError } from '@flynn/kit/errors';
import type { Piece } from '@flynn/resource/piece';
import { refusal } from '@flynn/resource/record';
import type { Again } from '@flynn/resource/reconciler';
import type { Principal } from '../access/principal.ts';
import { isAtLeast } from '../access/roles.ts';
import { refuseForDatastore } from '../datastores/guards.ts';
import { believedNow } from '../collection/round-state.ts';
import { countedPiece } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { appType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { expiryMeta, goesEarlier, parentMeta, reviewIssues } from './review-meta.ts';

/** Of an app: how many review apps it may have at once. */
const capMeta = 'review.max';
const defaultCap = 10;
const longestWaitMs = 60 * 60_000;

type Meta = Readonly<Record<string, string>>;

/** How many review apps the app may have at once. */
export function reviewCap(meta: Meta): number {
  const text = meta[capMeta] ?? '';
  return /^\d{1,4}$/.test(text) ? Number(text) : defaultCap;
}

/** The metadata of one that is to go in `reviewMs` by the cluster's clock. `invalid` for what is no review app. */
export function withExpiry(
  meta: Meta,
  { reviewMs }: { reviewMs?: number | undefined },
  nowMs: number,
): Record<string, string> {
  if (reviewMs === undefined) return { ...meta };
  if (meta[parentMeta] === undefined) {
    throw new FlynnError(
      'invalid',
      `what is no review app stays anyway: ${parentMeta} of its metadata names the app it is a copy of`,
    );
  }
  return { ...meta, [expiryMeta]: new Date(nowMs + reviewMs).toISOString() };
}

/**
 * What goes into the transaction that makes an app with this metadata. `exhausted` when there are too many, `invalid` for what
 * is no review app.
 */
export async function reviewPieces(deps: Deps, meta: Meta, signal: AbortSignal): Promise<Piece[]> {
  const parentId = meta[parentMeta];
  if (parentId === undefined) return [];
  const expiresAt = meta[expiryMeta];
  if (expiresAt === undefined || Number.isNaN(Date.parse(expiresAt))) {
    throw new FlynnError('invalid', `a review app says when it goes: ${expiryMeta} as in 2026-01-31T12:00:00Z`);
  }
  const parent = await deps.resources.find(appType, parentId, { signal });
  if (parent === undefined || parent.deletingSince !== undefined) {
    throw new FlynnError('invalid', `${parentMeta} names an app that is not there: give its id`);
  }
  refuseForDatastore(parent, 'it has no review apps; a review app of an app that has it reaches the same data');
  const all = await deps.resources.list(appType, { signal });
  const siblings = all.filter(
    ({ spec, deletingSince }) => spec.meta[parentMeta] === parentId && deletingSince === undefined,
  );
  const cap = reviewCap(parent.spec.meta);
  if (siblings.length >= cap) {
    throw new FlynnError(
      'exhausted',
      `${parent.spec.name} has ${siblings.length} review apps, and may have ${cap}: delete one, or raise ${capMeta} of its metadata`,
    );
  }
  return [countedPiece(deps, parent)];
}

/** The end of a review app is its deletion, which is for its admins; others may only put it off. Throws `invalid`, `denied`. */
export function checkReview({ id, spec }: Pick<AppResource, 'id' | 'spec'>, after: Meta, principal: Principal): void {
  const issues = reviewIssues(spec.meta, after);
  if (issues.length > 0) throw refusal(`app ${spec.name}`, issues);
  if (!goesEarlier(spec.meta, after) || isAtLeast(principal.levelOn({ id, isSystem: spec.isSystem }), 'admin')) return;
  const was = spec.meta[expiryMeta] ?? 'later';
  throw new FlynnError(
    'denied',
    `${spec.name} goes at ${was}, with all that it keeps: only an admin of the app may have it go earlier`,
  );
}

/**
 * A review app whose time is over, or whose app is gone, is deleted with its volumes: nobody is there to be asked of them. By a
 * clock that leapt ahead no time is over.
 */
export async function stepReview(deps: Deps, id: string, { signal }: { signal: AbortSignal }): Promise<void | Again> {
  const app = await deps.resources.find(appType, id, { signal });
  const parentId = app?.spec.meta[parentMeta];
  if (app === undefined || parentId === undefined || app.deletingSince !== undefined) return;
  if (app.spec.isSystem || app.spec.datastore !== undefined) return;
  const expiresMs = Date.parse(app.spec.meta[expiryMeta] ?? '');
  const parent = await deps.resources.find(appType, parentId, { signal });
  const leftMs = expiresMs - (await believedNow(deps, { signal }));
  if (parent !== undefined && (Number.isNaN(leftMs) || leftMs > 0)) {
    return { againInMs: Number.isNaN(leftMs) ? longestWaitMs : Math.min(longestWaitMs, leftMs) };
  }
  const change = ({ spec }: AppResource) => ({ spec: { ...spec, removesVolumes: true } });
  await deps.resources.delete(appType, id, { signal, expectRevision: app.revision, change });
  deps.log.info({ app: app.spec.name }, 'review app over');
}
