/**
 * Until when does an SSH key push, whose owner logs in with a provider of identities? Who is removed there is not told of here: it
 * shows in that they do not come any more.
 */
import { hasCode } from '@flynn/kit/errors';
import type { Compare } from '@flynn/store/store';
import type { Deps } from '../deps.ts';
import type { OidcSettings } from './oidc.ts';
import { userType } from './resources.ts';
import type { UserResource } from './resources.ts';

const dayMs = 86_400_000;
export const pushDays = 30;
/** Somebody who logs in all the time is not written down each time. */
const noteMs = dayMs / 2;

type Known = Readonly<{ spec: Pick<UserResource['spec'], 'identity'>; status: UserResource['status'] }>;

/**
 * Undefined: as long as there is the key. So it is of users that an admin added, where this cluster asks that provider no more, and
 * of those of a version before until a worker has noted them.
 */
export function pushesUntil(
  { spec, status }: Known,
  oidc: Pick<OidcSettings, 'issuer'> | undefined,
): number | undefined {
  if (spec.identity === undefined || spec.identity.issuer !== oidc?.issuer) return undefined;
  return status.lastLoginAt === undefined ? undefined : Date.parse(status.lastLoginAt) + pushDays * dayMs;
}

/** The user with this login; the same one where another was written down a moment ago. */
export async function noteLogin(
  { resources, now }: Pick<Deps, 'resources' | 'now'>,
  user: UserResource,
  { tellsGroups, signal }: { tellsGroups: boolean; signal: AbortSignal },
): Promise<UserResource> {
  const { lastLoginAt } = user.status;
  const isNews = tellsGroups && user.status.tellsGroups !== true;
  if (!isNews && lastLoginAt !== undefined && now() - Date.parse(lastLoginAt) < noteMs) return user;
  const noted = { lastLoginAt: new Date(now()).toISOString(), ...(tellsGroups ? { tellsGroups } : {}) };
  return resources.updateStatus(userType, user.id, (known) => ({ ...known.status, ...noted }), { signal });
}

/** Of users of a version before it is not known when they logged in last: their keys push so long from now on. */
export async function noteEarlierLogins(
  { resources }: Pick<Deps, 'resources'>,
  { nowMs, epoch, signal }: { nowMs: number; epoch: Compare; signal: AbortSignal },
): Promise<void> {
  const unknown = await resources.list(userType, {
    signal,
    where: ({ spec, status }) => spec.identity !== undefined && status.lastLoginAt === undefined,
  });
  const at = new Date(nowMs).toISOString();
  for (const { id } of unknown) {
    const noted = ({ status }: UserResource) => ({ ...status, lastLoginAt: status.lastLoginAt ?? at });
    try {
      await resources.updateStatus(userType, id, noted, { signal, also: () => ({ compare: [epoch] }) });
    } catch (error) {
      // Removed at the same time, or another worker leads now.
      if (!hasCode(error, 'conflict', 'not_found')) throw error;
    }
  }
}
