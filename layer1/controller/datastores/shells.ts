/** Who may have a shell beside a datastore? In a member's container all that it keeps is open, and the passwords of everybody. */
import { appliances } from '@flynn/appliances/appliances';
import { FlynnError } from '@flynn/kit/errors';
import type { Principal } from '../access/principal.ts';
import type { AppResource } from '../resources.ts';

/** What jobs are that people's consoles run in: there, a shell opens no more than a console does. */
export const consoleType = 'console';
export const superuserConsoleType = 'superuser-console';

/** Throws `denied`. `type`: of the job that somebody wants to join, where there is one. */
export function checkShell({ id, spec }: AppResource, principal: Principal, type?: string): void {
  const { name, datastore, isSystem } = spec;
  if (datastore === undefined || type === consoleType || principal.levelOn({ id, isSystem }) === 'admin') return;
  const { command, console } = appliances.get(datastore.appliance)?.cli ?? { command: 'resource', console: '' };
  throw new FlynnError(
    'denied',
    `a shell in ${name}, which is a datastore, reads all that is kept there and every password of it: that is for admins of the cluster; flynn ${command} ${console} -a ${name} is for you`,
  );
}
