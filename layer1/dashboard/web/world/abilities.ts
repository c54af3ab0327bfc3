/** What may be done with what, in which state, and by whom? The API judges in the end; pages do not show what it would refuse. */
import type { HostView } from '@flynn/controller/hosts/api';
import type { Identity } from '@flynn/controller/access/model';
import { higher, isAtLeast, lower, type Level } from '@flynn/controller/access/roles';
import type { App, Deployment, Job, Operation } from '@flynn/controller/model';

export type DeploymentAct = 'pause' | 'resume' | 'promote' | 'abort';

/** As deployments/controls.ts has it, without what changes nothing. */
export const deploymentActs: Readonly<Record<Deployment['state'], readonly DeploymentAct[]>> = {
  pending: ['pause', 'abort'],
  releasing: ['abort'],
  running: ['pause', 'abort'],
  canary: ['promote', 'pause', 'abort'],
  paused: ['resume', 'abort'],
  finishing: [],
  rolling_back: [],
  complete: [],
  failed: [],
};

export const isCancellable: Readonly<Record<Operation['state'], boolean>> = {
  queued: true,
  waiting: true,
  running: true,
  complete: false,
  failed: false,
  cancelled: false,
};

export type HostAct = 'cordon' | 'uncordon' | 'drain' | 'undrain';

export const hostActs: Readonly<Record<HostView['state'], readonly HostAct[]>> = {
  up: ['cordon', 'drain'],
  cordoned: ['uncordon', 'drain'],
  draining: ['undrain'],
  away: [],
};

export type JobAct = 'exec' | 'stop';

export const jobActs: Readonly<Record<Job['state'], readonly JobAct[]>> = {
  pending: ['stop'],
  starting: ['stop'],
  running: ['exec', 'stop'],
  stopping: [],
  done: [],
  crashed: ['stop'],
  failed: [],
  lost: [],
};

/** What somebody may do with an app, as far as they can know it themselves: of a datastore's the API knows more. */
export function levelOn(app: Pick<App, 'name' | 'isSystem'>, { role, apps }: Pick<Identity, 'role' | 'apps'>): Level {
  const given = apps.find(({ name }) => name === app.name)?.role ?? 'none';
  if (app.isSystem && role !== 'admin') return lower(role === 'none' ? given : role, 'viewer');
  return higher(role, given);
}

export function mayChange(app: Pick<App, 'name' | 'isSystem'>, identity: Identity): boolean {
  return isAtLeast(levelOn(app, identity), 'developer');
}

/** Names only, for those who look. */
export function mayReadValues(app: Pick<App, 'name' | 'isSystem'>, identity: Identity): boolean {
  return isAtLeast(levelOn(app, identity), app.isSystem ? 'admin' : 'developer');
}
