/**
 * Which tokens end soon, and which may be somebody's whom nobody gave so much? Of the first those that were made to last: a login
 * is good for a day, and nobody minds its end.
 */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import type { Deps } from '../deps.ts';
import { tokenType, userType } from './resources.ts';
import type { TokenResource } from './resources.ts';

const dayMs = 86_400_000;
const warnMs = 7 * dayMs;
const lastingMs = 14 * dayMs;

export function tokenCheck({ resources, now }: Pick<Deps, 'resources' | 'now'>): Check {
  return {
    name: 'tokens',
    async find(signal) {
      const [tokens, named] = await Promise.all([
        resources.list(tokenType, { signal }),
        resources.list(userType, { object: 'root', signal }),
      ]);
      return [...tokenFindings(tokens, now()), ...(named.length === 0 ? [] : rootFindings(tokens, now()))];
    },
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

/** Pure. There is a user of that name: versions before gave them the cluster's own tokens. */
export function rootFindings(tokens: readonly Pick<TokenResource, 'id' | 'spec'>[], now: number): Found[] {
  const own = tokens.filter(
    ({ spec: { userId, expiresAt } }) =>
      userId === undefined && (expiresAt === undefined || Date.parse(expiresAt) > now),
  );
  if (own.length === 0) return [];
  return [
    {
      severity: 'warning',
      subject: 'user root',
      what: 'it is called as whoever has the root key',
      why: `a version before gave it tokens that open all that the root key does; these are of no user: ${own.map(({ id }) => id).join(', ')}`,
      remedy: 'take back those that nobody else needs: flynn token revoke ID; then flynn user remove root',
    },
  ];
}
