/** Which repositories that apps follow cannot be read? */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import type { Deps } from '../deps.ts';
import { appType } from '../resources.ts';
import { sourceType } from './resource.ts';
import type { SourceResource } from './resource.ts';

/** By then it was looked for a quarter of an hour. */
const failuresMark = 5;

export function sourceCheck({ resources }: Pick<Deps, 'resources'>): Check {
  return {
    name: 'sources',
    async find(signal) {
      const sources = await resources.list(sourceType, { signal });
      if (sources.length === 0) return [];
      const names = new Map((await resources.list(appType, { signal })).map(({ id, spec }) => [id, spec.name]));
      return sourceFindings(sources, (appId) => names.get(appId));
    },
  };
}

/** `nameOf` an app, if it is there. Pure. */
export function sourceFindings(
  sources: readonly Pick<SourceResource, 'spec' | 'status'>[],
  nameOf: (appId: string) => string | undefined,
): Found[] {
  return sources.flatMap(({ spec, status: { failures, error } }): Found[] => {
    const app = nameOf(spec.appId);
    if (failures < failuresMark || error === undefined || app === undefined) return [];
    return [
      {
        severity: 'warning',
        subject: `app ${app}`,
        what: `the repository it follows could not be read ${failures} times in a row: ${error}`,
        why: 'what is committed there is not built',
        remedy: `flynn source -a ${app} tells more; once it is put right: flynn source poll -a ${app}`,
      },
    ];
  });
}
