/** Tells a datastore who logs in there: by the appliance's program beside a member, which goes to the primary. */
import type { Appliance, Login } from '@flynn/appliances/appliance';
import { FlynnError } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { statusesOfApp } from '../mirrors/cell-view.ts';
import type { Deps } from '../deps.ts';
import type { AppResource } from '../resources.ts';
import { membersOf } from './description.ts';
import { outputOf } from './program.ts';

/** Sessions of whoever is let in no longer end meanwhile. */
const admitMs = 60_000;

/** The job of the primary, as far as it says of itself that it is. */
export function primaryOf(statuses: readonly SeenStatus[]): SeenStatus | undefined {
  return statuses.find(({ state, goesLast, isUncertain }) => state === 'running' && goesLast === true && !isUncertain);
}

/**
 * From now on these log in, `alone` and nobody else whom apps log in as, or `beside` those who do; done again it changes nothing.
 * Throws `unavailable` where no member is up, `conflict` with what the program says.
 */
export async function admit(
  { cell, hosts }: Pick<Deps, 'cell' | 'hosts'>,
  { app, appliance }: Readonly<{ app: AppResource; appliance: Appliance }>,
  { logins, how }: Readonly<{ logins: readonly Login[]; how: 'alone' | 'beside' }>,
  signal: AbortSignal,
): Promise<void> {
  const statuses = statusesOfApp(cell, app.id);
  const member = primaryOf(statuses) ?? membersOf(appliance, statuses)[0];
  if (member === undefined) {
    throw new FlynnError('unavailable', `${app.spec.name} has no member that is up: flynn ps -a ${app.spec.name}`);
  }
  await outputOf(
    hosts,
    member,
    appliance.logins[how === 'alone' ? 'admit' : 'letIn'](logins),
    withDeadline(admitMs, signal),
  );
}
