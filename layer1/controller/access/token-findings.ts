/** Which tokens end soon? Those that were made to last: a login is good for a day, and nobody minds its end. */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import type { Deps } from '../deps.ts';
import { tokenType } from './resources.ts';
import type { TokenResource } from './resources.ts';

const dayMs = 86_400_000;
const warnMs = 7 * dayMs;
const lastingMs = 14 * dayMs;

export function tokenCheck({ resources, now }: Pick<Deps, 'resources' | 'now'>): Check {
  return {
    name: 'tokens',
    find: async (signal) => tokenFindings(await resources.list(tokenType, { signal }), now()),
  };
}

/** Pure. One that has ended is told of for as long as it is kept, a week. */
export function tokenFindings(
  tokens: readonly Pick<TokenResource, 'id' | 'createdAt' | 'spec'>[],
  now: number,
): Found[] {
  return tokens.flatMap(({ id, createdAt, spec }): Found[] => {
    if (spec.expiresAt === undefined) return [];
    const endsMs = Date.parse(spec.expiresAt);
    if (endsMs - Date.parse(createdAt) < lastingMs || endsMs - now > warnMs) return [];
    return [
      {
        severity: 'warning',
        subject: `token ${spec.name}`,
        what: `${endsMs <= now ? 'it expired at' : 'it expires at'} ${spec.expiresAt}`,
        why: 'what uses it, as a build server, is turned away from then on',
        remedy: `flynn token create makes another, put it where flynn_${id}_… is, then flynn token revoke ${id}`,
      },
    ];
  });
}
