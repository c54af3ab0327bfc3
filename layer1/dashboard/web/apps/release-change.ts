/** A release that differs from the live one in its variables alone, rolled out: as `flynn env set` does it. */
import type { apps, deployments, releases } from '@flynn/controller/api';
import type { Deployment, Release } from '@flynn/controller/model';
import type { Api } from '../api/client.ts';
import { asFailure, Failure } from '../api/failure.ts';
import { edited, type EnvEdit } from './env-change.ts';

const mostAttempts = 10;

type Basis = Readonly<{ release: Release | undefined; isLive: boolean }>;

/** The live release; before there is one, the newest that was made. */
export async function readBasis(api: Api, app: string, signal?: AbortSignal): Promise<Basis> {
  const options = signal === undefined ? {} : { signal };
  const { releaseId } = await api.call<typeof apps.get>('GET /apps/:app', { params: { app } }, options);
  if (releaseId !== undefined) {
    const params = { app, release: releaseId };
    const release = await api.call<typeof releases.get>('GET /apps/:app/releases/:release', { params }, options);
    return { release, isLive: true };
  }
  const query = { limit: 1 };
  const [release] = await api.call<typeof releases.list>(
    'GET /apps/:app/releases',
    { params: { app }, query },
    options,
  );
  return { release, isLive: false };
}

/** `deployment`: none of an app that has nothing to run yet. */
export type Changed = Readonly<{ release: Release; deployment?: Deployment }>;

/**
 * Where somebody else was first the edit is made of what they made: neither takes back what the other did. `once` names the
 * wish: wished again with it, because an answer was lost, nothing is made twice.
 */
export async function changeEnv(api: Api, app: string, edit: EnvEdit, once: string): Promise<Changed> {
  for (let attempt = 1; ; attempt += 1) {
    const basis = await readBasis(api, app);
    try {
      return await makeRelease(api, app, { basis, edit, once });
    } catch (error) {
      const failure = asFailure(error);
      if (failure.detail['isOvertaken'] !== true || attempt >= mostAttempts) throw failure;
    }
  }
}

async function makeRelease(
  api: Api,
  app: string,
  wanted: { basis: Basis; edit: EnvEdit; once: string },
): Promise<Changed> {
  const { basis, edit, once } = wanted;
  const before = basis.release;
  const body = {
    meta: before?.meta ?? {},
    processes: before?.processes ?? {},
    ...edited({ env: before?.env ?? {}, references: before?.references ?? {} }, edit),
    ...(before?.artifactId === undefined ? {} : { artifactId: before.artifactId }),
    basis: before?.id ?? null,
  };
  const name = `${once}.${before?.id ?? 'first'}`;
  const release = await api.call<typeof releases.create>(
    'POST /apps/:app/releases',
    { params: { app }, body },
    { once: `${name}.release` },
  );
  if (release.artifactId === undefined) return { release };
  try {
    const replaces = basis.isLive && before !== undefined ? before.id : null;
    return { release, deployment: await deploy(api, app, { releaseId: release.id, replaces, once: name }) };
  } catch (error) {
    const failure = asFailure(error);
    // It may have begun all the same.
    if (failure.code !== 'unavailable' && failure.code !== 'timeout') await forget(api, app, release);
    throw failure;
  }
}

/** `replaces`: what is live as far as whoever asks knows; with anything else live it is refused. */
export function deploy(
  api: Api,
  app: string,
  { releaseId, replaces, once }: { releaseId: string; replaces: string | null; once: string },
): Promise<Deployment> {
  return api.call<typeof deployments.create>(
    'POST /apps/:app/deployments',
    { params: { app }, body: { releaseId, replaces } },
    { once: `${once}.deployment` },
  );
}

/** As well as may be: it was made for this deployment alone, and nobody is to roll it out later. */
async function forget(api: Api, app: string, { id }: Release): Promise<void> {
  try {
    await api.call<typeof releases.remove>('DELETE /apps/:app/releases/:release', { params: { app, release: id } });
  } catch (error) {
    // It is listed then, and never was live.
    if (!(error instanceof Failure)) throw error;
  }
}
