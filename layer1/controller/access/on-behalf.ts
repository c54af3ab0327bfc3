/** A runner acts for whoever asked for the operation that it holds: what it makes of an app is judged by what they may. */
import type { Deps } from '../deps.ts';
import { isHeldBy } from '../operations/holding.ts';
import { operationType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import type { Directory } from './directory.ts';
import type { Principal } from './principal.ts';
import { isPerson } from './service-names.ts';

export type Askers = Pick<Directory, 'whoAsked'>;

/**
 * By what they may now. Of an app one operation is held at most; which, the store says. Where nobody can be told, as of what comes
 * of a repository that an app follows, it is the runner itself.
 */
export async function actingFor(
  { resources }: Pick<Deps, 'resources'>,
  askers: Askers,
  principal: Principal,
  { app, signal }: { app: AppResource; signal: AbortSignal },
): Promise<Principal> {
  const { runnerId } = principal;
  if (isPerson(principal)) return principal;
  const isHeld = isHeldBy({ runnerId, appId: app.id });
  const [held, ...others] = await resources.list(operationType, { signal, where: isHeld });
  if (held?.spec.asker === undefined || others.length > 0) return principal;
  return (await askers.whoAsked(held.spec.asker, signal)) ?? principal;
}
