/** The metadata that makes an app a review app, which goes with all it keeps when its time is over: how may it change? Pure. */
import type { FieldIssue } from '@flynn/resource/type';

/** Of a review app: the app it is a copy of, by id, and when it goes, ISO 8601. */
export const parentMeta = 'review.of';
export const expiryMeta = 'review.expires_at';
const marks: ReadonlySet<string> = new Set([parentMeta, expiryMeta]);

type Meta = Readonly<Record<string, string>>;

/** As files have it: ids are of one cluster, and nobody means an app to go for having been copied to another. */
export function withoutReview(meta: Meta): Meta {
  return Object.fromEntries(Object.entries(meta).filter(([name]) => !marks.has(name)));
}

/** What a file says of the metadata is all of it, but for these, which it has only where somebody put them in. */
export function withReview(before: Meta, wanted: Meta): Meta {
  return { ...Object.fromEntries(Object.entries(before).filter(([name]) => marks.has(name))), ...wanted };
}

/** An app is made a review app, and never becomes one; it may cease to be one. */
export function reviewIssues(before: Meta, after: Meta): FieldIssue[] {
  const [parent, expiry] = [after[parentMeta], after[expiryMeta]];
  const isOther = expiry !== before[expiryMeta];
  if (parent !== undefined && parent !== before[parentMeta]) {
    const message = 'an app that is there does not become a review app: flynn review create NAME makes one';
    return [{ path: `meta.${parentMeta}`, message }];
  }
  if (!isOther || (parent === undefined && expiry === undefined)) return [];
  if (parent === undefined) {
    return [{ path: `meta.${expiryMeta}`, message: 'it says when a review app goes, and this is none: it stays' }];
  }
  if (!Number.isNaN(Date.parse(expiry ?? ''))) return [];
  const message = `it is when the review app goes, as in 2026-01-31T12:00:00Z; one that is to stay has no ${parentMeta} either`;
  return [{ path: `meta.${expiryMeta}`, message }];
}

/** Whether an app is deleted by this, or earlier than it would have been. */
export function goesEarlier(before: Meta, after: Meta): boolean {
  if (after[parentMeta] === undefined || after[expiryMeta] === before[expiryMeta]) return false;
  const was = Date.parse(before[expiryMeta] ?? '');
  return Number.isNaN(was) || Date.parse(after[expiryMeta] ?? '') < was;
}
