/** The repository that an app follows, and that somebody wants it looked at now. */
import { FlynnError } from '@flynn/kit/errors';
import type { Deps } from '../deps.ts';
import type { AppResource } from '../resources.ts';
import { sourceType } from './resource.ts';
import type { SourceResource } from './resource.ts';

export async function findSource(
  { resources }: Pick<Deps, 'resources'>,
  app: AppResource,
  signal: AbortSignal,
): Promise<SourceResource> {
  const found = await resources.find(sourceType, app.id, { signal });
  if (found !== undefined) return found;
  const name = app.spec.name;
  throw new FlynnError('not_found', `${name} follows no repository: flynn source set URL -a ${name}`);
}

/** However many want one before it begins, it is one look. `isAnew`: it takes the commit though it was taken before. */
export async function wantLook(
  { resources }: Pick<Deps, 'resources'>,
  appId: string,
  signal: AbortSignal,
  { isAnew = false } = {},
): Promise<SourceResource> {
  const wanted = ({ status }: SourceResource) => ({
    ...status,
    isWanted: true,
    ...(isAnew
      ? {
          commit: undefined,
          pollId: undefined,
          polls: status.polls + 1,
          lastPollId: status.pollId ?? status.lastPollId,
        }
      : {}),
  });
  return resources.updateStatus(sourceType, appId, wanted, { signal });
}
