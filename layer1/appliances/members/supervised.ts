/** What is asked of the program that watches over a member of Redis or MySQL (`programs/answers.py`), and how logins are called. */
import type { Appliance } from '../appliance.ts';

const supervisorPort = 8_008;

export const supervised = {
  health: { port: supervisorPort, path: '/readiness' },
  alive: { port: supervisorPort, path: '/liveness' },
  roles: {
    primary: { port: supervisorPort, path: '/primary' },
    replica: { port: supervisorPort, path: '/replica' },
  },
  leadingRole: 'primary',
} as const satisfies Partial<Appliance>;

/** Who takes the place of a login: the two in turn, once the first is gone. */
export function loginAfter(name: string): string {
  return name === 'app_1' ? 'app_2' : 'app_1';
}
