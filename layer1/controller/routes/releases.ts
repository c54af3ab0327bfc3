/** Weights as people write them name releases; stored they have the ids that never change. */
import { hasCode } from '@flynn/kit/errors';
import { refusal } from '@flynn/resource/record';
import type { Deps } from '../deps.ts';
import { releaseName, releaseType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import type { HttpChange } from './settings.ts';

/** Throws `invalid` for what is no release of the app. */
export async function withReleaseIds(
  deps: Pick<Deps, 'resources'>,
  app: Pick<AppResource, 'id' | 'spec'>,
  change: HttpChange,
  signal: AbortSignal,
): Promise<HttpChange> {
  if (change.weights === undefined || change.weights === null) return change;
  const weights = await Promise.all(
    change.weights.map(async ({ release, weight }, index) => {
      const id = await releaseId(deps, app.id, release, signal);
      if (id !== undefined) return { release: id, weight };
      const message = `${app.spec.name} has no release "${release}"; list them with: flynn release -a ${app.spec.name}`;
      throw refusal('route', [{ path: `http.weights.${index}.release`, message }]);
    }),
  );
  return { ...change, weights };
}

async function releaseId(
  { resources }: Pick<Deps, 'resources'>,
  appId: string,
  text: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const version = /^v([1-9]\d{0,8})$/.exec(text)?.[1];
  const wanted = version === undefined ? text : releaseName(appId, Number(version));
  try {
    const release = await resources.lookup(releaseType, wanted, { signal });
    return release.spec.appId === appId ? release.id : undefined;
  } catch (error) {
    if (hasCode(error, 'not_found', 'invalid')) return undefined;
    throw error;
  }
}
