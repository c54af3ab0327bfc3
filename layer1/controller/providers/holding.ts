/** What of a resource that what is live in an app still has, when that is to give it back? Pure. */
import type { Failure } from './model.ts';
import type { Link, ProvidedResource } from './types.ts';

/** Of what people have to do something about: how often it is seen whether they did. */
export const heldLookMs = 5_000;

type Links = ProvidedResource['status']['links'];

/** Apps that still have it do so by what is live in them: none of them gives it back by itself. */
export function isHeld({ status }: Pick<ProvidedResource, 'status'>): boolean {
  const links = Object.values(status.links);
  return !mayBeLost(status) && links.length > 0 && links.every((link) => link.isHeld === true);
}

/** Whether it goes though what is live in its apps may have it: somebody has said so, or it is gone already. */
export function mayBeLost({
  isForced,
  isForgotten,
}: Pick<ProvidedResource['status'], 'isForced' | 'isForgotten'>): boolean {
  return isForced === true || isForgotten === true;
}

/** Asked again, those that hold it are to give it back once more. */
export function askedAgain(links: Links, isAsked: (appId: string) => boolean): Links {
  const again = (appId: string, link: Link): Link =>
    link.isHeld === true && isAsked(appId) ? { state: 'added' } : link;
  return Object.fromEntries(Object.entries(links).map(([appId, link]) => [appId, again(appId, link)]));
}

/** Without the app's name, for who may see another app of the resource reads it, too; `failure`: why it got no release without. */
export function whatHolds(
  { id, deletingSince }: Pick<ProvidedResource, 'id' | 'deletingSince'>,
  failure: Failure | undefined,
): string {
  const why =
    failure === undefined
      ? 'what is live in it has its variables, and the release without them is not (flynn deployment)'
      : `it cannot have a release without its variables (${failure.message})`;
  const again = deletingSince === undefined ? `flynn resource detach ${id}` : `flynn resource remove ${id}`;
  const forced = deletingSince === undefined ? '' : '; --force takes it from the app as it is';
  return `an app to run without it: ${why}. Make it run without them, then ask again: ${again}${forced}`;
}
