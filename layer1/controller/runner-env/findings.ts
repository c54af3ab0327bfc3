/** Which logins of registries does a cluster keep that is to keep none? */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import type { Deps } from '../deps.ts';
import { appType, releaseType } from '../resources.ts';
import { type Env, envsOf, keptLoginsIn } from './kept-logins.ts';
import { runnerEnvType } from './resource.ts';

export function keptLoginsCheck({ resources, settings }: Pick<Deps, 'resources' | 'settings'>): Check {
  return {
    name: 'logins of registries',
    async find(signal) {
      if (settings.keepsRegistryLogins ?? true) return [];
      const ofRunners = (await resources.list(runnerEnvType, { signal })).map(({ spec }) => spec.env);
      const apps = await resources.list(appType, { signal, where: ({ spec }) => spec.isSystem });
      const own = new Set(apps.map(({ id }) => id));
      const releases = await resources.list(releaseType, { signal, where: ({ spec }) => own.has(spec.appId) });
      return keptLoginsFindings(
        ofRunners,
        releases.flatMap(({ spec }) => envsOf(spec)),
      );
    },
  };
}

/** `ofRunners`: what "flynn runner env" set; `ofReleases`: of the platform's own apps. Pure. */
export function keptLoginsFindings(ofRunners: readonly Env[], ofReleases: readonly Env[]): Found[] {
  const why =
    'FLYNN_REGISTRY_LOGINS_KEPT of the controller says that the cluster is to keep none: they are in the store, sealed';
  const finding = (envs: readonly Env[], where: string, remedy: string): Found[] => {
    const registries = [...new Set(envs.flatMap((env) => Object.keys(keptLoginsIn(env))))];
    const what = `it keeps logins of registries ${where}: ${registries.toSorted().join(', ')}`;
    return registries.length === 0 ? [] : [{ severity: 'warning', subject: 'the cluster', what, why, remedy }];
  };
  return [
    ...finding(ofRunners, 'for its runners', 'flynn registry logout REGISTRY takes one away'),
    ...finding(
      ofReleases,
      'in releases of its own apps',
      `flynn -a runner env unset FLYNN_REGISTRY_LOGINS; releases of before that go with flynn release delete`,
    ),
  ];
}
