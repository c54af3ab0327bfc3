/** Objects of every kind, of an app of one's own, of somebody else's and of the platform's; and who has no business with these. */
import type { HttpClient } from '@flynn/kit/http-client';
import type { AnyType } from '@flynn/resource/type';
import { grants, tokens, users } from '../access/api.ts';
import { tokenType } from '../access/resources.ts';
import { apps, formations, releases } from '../api.ts';
import { autoscaleId, autoscaleType } from '../autoscale/resource.ts';
import { createControllerClient } from '../client.ts';
import { addKey } from '../keys/keys.ts';
import { notificationType } from '../notifications/types.ts';
import { providerType, resourceType } from '../providers/types.ts';
import {
  appType,
  cronType,
  deploymentType,
  drainType,
  operationType,
  ownedBy,
  routeType,
  runnerType,
} from '../resources.ts';
import { runnerEnvType } from '../runner-env/resource.ts';
import { sourceType } from '../source/resource.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { generic } from './api.ts';
import { counterKind, counterType } from './demo.ts';
import { defaultSettings } from './route-settings.ts';

const keys = {
  mine: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl mine',
  victim: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA/NPHjeqCRIjEJEVsLaMHxvYLpdFyIbpTkPUlMf5c6M victim',
};

export type Row = {
  /** What the object of that app is called. */
  name: (app: string) => string;
  /** Says all that it can of which one is meant, and something else of it than there is; none: it is not written. */
  spec?: (app: string) => object;
  /** It cannot be changed, by admins neither. */
  isFixed?: true;
};

const cronOf = (app: string) => `${app}-line`;
/** By kind. */
export const rows: Readonly<Record<string, Row>> = {
  App: { name: (app) => app, spec: () => ({ meta: { hit: 'yes' } }) },
  Formation: { name: (app) => `${app}/v1`, spec: () => ({ processes: { web: 3 } }) },
  Autoscale: { name: (app) => `${app}/web`, spec: () => ({ min: 2, max: 7, requestsPerSecond: 9 }) },
  Route: {
    name: (app) => `www.${app}.example.com/`,
    spec: (app) => ({ domain: `www.${app}.example.com`, http: { canonicalHost: 'evil.example.com' } }),
  },
  Key: { name: (app) => ids.get(`Key ${app}`) ?? '', spec: (app) => ({ publicKey: keyOf(app) }), isFixed: true },
  Cron: { name: (app) => cronOf(app), spec: () => ({ isPaused: true }) },
  Drain: { name: (app) => `drain-${app}`, spec: (app) => ({ url: `https://logs.${app}.example.com/` }) },
  Notification: { name: (app) => `told-${app}`, spec: () => ({ severity: 'warning' }) },
  Provider: { name: () => 'pg', spec: () => ({ url: 'https://evil.example.com/' }) },
  User: { name: () => 'vic', spec: () => ({ role: 'admin' }) },
  Team: { name: () => 'ops', spec: () => ({ role: 'admin' }) },
  RunnerEnv: { name: () => 'all', spec: () => ({ name: 'all', env: { A: 'evil' } }) },
  Counter: { name: (app) => `count-${app}`, spec: (app) => ({ name: `count-${app}`, target: 9 }) },
  Resource: { name: (app) => `db-${app}` },
  Release: { name: (app) => `${ids.get(`App ${app}`)}/v1` },
  Deployment: { name: (app) => `deployment-${app}` },
  Operation: { name: (app) => `operation-${app}` },
  Source: { name: (app) => ids.get(`App ${app}`) ?? '' },
  Token: { name: (app) => `token-${app}` },
  Runner: { name: () => 'r1' },
  // Of these admins alone see that there are any.
  Tombstone: { name: () => 'x' },
  Certificate: { name: () => 'x' },
  Acme: { name: () => 'x' },
  Artifact: { name: () => 'x' },
};
/** By kind and app, of those that are not called so. */
const ids = new Map<string, string>();

function keyOf(app: string): string {
  return app === 'mine' ? keys.mine : keys.victim;
}

/** All that an app can have, whoever may change it. */
async function fill(world: TestController, app: string, appId: string, userId: string): Promise<void> {
  const { resources } = world.deps;
  const signal = AbortSignal.timeout(60_000);
  const owner = ownedBy(appId);
  const create = (type: AnyType, id: string | undefined, spec: object, isOwned = true) =>
    resources.create(type, { ...(id && { id }), ...(isOwned && { owner }), spec }, { signal });
  await world.client.call(releases.create, { params: { app }, body: { processes: { web: {} } } });
  await world.client.call(formations.put, { params: { app, release: 'v1' }, body: { processes: { web: 1 } } });
  // This one has no formation yet.
  await world.client.call(releases.create, { params: { app }, body: { processes: { web: {} } } });
  await create(autoscaleType, autoscaleId(appId, 'web'), { appId, type: 'web', max: 5, requestsPerSecond: 1 });
  const [domain, service] = [`www.${app}.example.com`, `${app}-web`];
  await create(routeType, undefined, { appId, type: 'http', domain, path: '/', service, ...defaultSettings });
  await create(cronType, cronOf(app), { appId, schedule: '0 0 1 1 *', command: 'x' });
  await create(drainType, `drain-${app}`, { appId, url: `https://logs.${app}.example.com/` });
  const on = ['deployment'];
  const told = { url: 'https://hooks.example.com/', format: 'json', on, severity: 'critical', everyMinutes: 5 };
  const secret = `whsec_${Buffer.alloc(32).toString('base64')}`;
  await create(notificationType, undefined, { name: `told-${app}`, appId, ...told, secret });
  await create(counterType, undefined, { name: `count-${app}`, target: 1 });
  await create(resourceType, `db-${app}`, { providerId: 'pg', config: {}, apps: [{ appId }] }, false);
  const rollout = { newReleaseId: 'x', counts: {}, oldCounts: {}, knownJobs: [], timeoutMs: 1 };
  await create(deploymentType, `deployment-${app}`, { appId, ...rollout });
  const work = { kind: 'build', dependsOn: [], mayFail: [], pushId: 'p', input: {} };
  await create(operationType, `operation-${app}`, { appId, ...work });
  const url = 'https://git.example.com/x.git';
  await create(sourceType, appId, { appId, url, branch: 'main', everyMs: 60_000, isOpen: false });
  await create(tokenType, `token-${app}`, { name: 'x', hash: 'x', role: 'admin', userId }, false);
}

export type ForeignWorld = AsyncDisposable & {
  world: TestController;
  /** By what they are. */
  callers: ReadonlyMap<string, HttpClient>;
  /** All that there is of what is not theirs, to the last revision. */
  foreign(): Promise<string>;
};

export async function startForeignWorld(): Promise<ForeignWorld> {
  const callers = new Map<string, HttpClient>();
  const world = await startTestController({ kinds: [counterKind], hasWorker: false, hosts: 1 });
  const { client, deps } = world;
  const signal = AbortSignal.timeout(60_000);
  const userIds = new Map<string, string>();
  for (const name of ['vic', 'mallory', 'clara', 'nobody']) {
    const role = name === 'clara' ? { role: 'developer' as const } : {};
    userIds.set(name, (await client.call(users.create, { body: { name, ...role } })).id);
  }
  const { resources } = deps;
  await resources.create(providerType, { id: 'pg', spec: { name: 'pg', url: 'https://pg.example.com/' } }, { signal });
  await resources.create(runnerEnvType, { spec: { name: 'all', env: { A: 'a' } } }, { signal });
  await resources.create(
    runnerType,
    { id: 'r1', spec: { labels: {}, version: '1', slots: 1, isByIdOnly: false, isPlatform: false } },
    { signal },
  );
  await client.call(generic.apply, { params: paramsOf('Team'), body: { name: 'ops' } });
  for (const name of ['victim', 'mine', 'part']) {
    const { id } = await client.call(apps.create, { body: { name, isSystem: name === 'part' } });
    ids.set(`App ${name}`, id);
    await fill(world, name, id, userIds.get(name === 'mine' ? 'mallory' : 'vic') ?? '');
  }
  const key = await addKey(deps, { text: keys.victim, userId: userIds.get('vic') ?? '' }, signal);
  const own = await addKey(deps, { text: keys.mine, userId: userIds.get('mallory') ?? '' }, signal);
  for (const app of ['victim', 'part']) ids.set(`Key ${app}`, key.spec.fingerprint);
  ids.set('Key mine', own.spec.fingerprint);
  for (const [app, name] of [
    ['mine', 'mallory'],
    ['victim', 'vic'],
    ['mine', 'vic'],
  ] as const) {
    await client.call(grants.put, { params: { app, kind: 'user', name }, body: { role: 'developer' } });
  }
  const enter = async (name: string, user: string, narrow: { role?: 'viewer'; apps?: string[] } = {}) => {
    const { token } = await client.call(tokens.create, { body: { name: 'test', user } });
    const whole = createControllerClient({ baseUrl: world.url, key: token });
    if (Object.keys(narrow).length === 0) {
      callers.set(name, whole);
      return;
    }
    const made = await whole.call(tokens.create, { body: { name: 'less', ...narrow } });
    await whole.close();
    callers.set(name, createControllerClient({ baseUrl: world.url, key: made.token }));
  };
  await enter('a developer of another app', 'mallory');
  await enter('a developer of the cluster', 'clara');
  await enter('somebody without a role', 'nobody');
  await enter('a token for another app', 'vic', { apps: ['mine'] });
  await enter('a token that only looks', 'vic', { role: 'viewer' });
  const less = await client.call(tokens.create, { body: { name: 'less', apps: ['mine'] } });
  callers.set(
    "the cluster's own token for another app",
    createControllerClient({ baseUrl: world.url, key: less.token }),
  );
  return {
    world,
    callers,
    foreign: () => foreign(world),
    async [Symbol.asyncDispose]() {
      for (const caller of callers.values()) await caller.close();
      await world[Symbol.asyncDispose]();
    },
  };
}

export function idOfMine(kind: string): string | undefined {
  return ids.get(`${kind} mine`);
}

export function paramsOf(kind: string) {
  return kind === 'Counter' ? { group: 'demo', version: 'v1', kind } : { group: 'flynn', version: 'v1', kind };
}

/** The platform's app is a developer's of the cluster to look at, and no more. */
export function victimOf(caller: string): string {
  return caller === 'a developer of the cluster' ? 'part' : 'victim';
}

/** Developers of the cluster may make apps: these are theirs. */
async function foreign(world: TestController): Promise<string> {
  const { kinds, resources } = world.deps;
  const made = await resources.list(appType, { object: 'unknown' });
  const own = new Set([ids.get('App mine'), ...made.map(({ id }) => id)]);
  const all = await Promise.all(
    kinds
      .all()
      .map(async ({ type }) =>
        (await resources.list(type, {}))
          .filter(({ id, owner }) => !own.has(id) && !own.has(owner?.id))
          .map(({ id, uid, revision, type: of, owner }) => `${of} ${id} ${uid} ${revision} ${owner?.id ?? ''}`),
      ),
  );
  return all.flat().toSorted().join('\n');
}
