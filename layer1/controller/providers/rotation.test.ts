/** A datastore's password, made anew while its apps run. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { resourceKey } from '@flynn/resource/keys';
import type { HostJob } from '@flynn/scheduler/cell';
import { apps, deployments, jobs, releases } from '../api.ts';
import { deploymentControls } from '../deployments/api-controls.ts';
import { audit } from '../audit/api.ts';
import { datastores } from '../datastores/api.ts';
import type { Credentials } from '../datastores/api.ts';
import { makeTestDatastore, withAppliances } from '../datastores/datastore-fixture.ts';
import type { TestDatastore } from '../datastores/datastore-fixture.ts';
import { rotationFindings } from '../datastores/findings.ts';
import { appType } from '../resources.ts';
import { startTestController } from '../testing.ts';
import type { Behaviour, TestController } from '../testing.ts';
import { resources } from './api.ts';
import { withOutcome } from './rotation.ts';
import { resourceType } from './types.ts';

let world: TestController;
let own: TestDatastore;
/** Who was let in, one line for each time that the datastore was told; `also`: beside whoever was. */
let admitted: string[] = [];
/** What its program does instead. */
let refusal: string | undefined;

const web = { web: {} };
const params = { app: 'shop-postgres' };
const until = { deadlineMs: 60_000, intervalMs: 10 };

before(async () => {
  world = await startTestController(withAppliances);
  await world.deployApp('shop', web);
  await world.deployApp('blog', web);
  own = await makeTestDatastore(world, { app: 'shop' });
  await world.client.call(resources.addApp, { params: { resource: own.resourceId, app: 'blog' }, body: {} });
  for (const host of world.hosts) {
    host.programs = (command, input) => {
      const program = command.at(-1) ?? '';
      if (!['admit', 'let-in'].includes(program)) return undefined;
      if (refusal !== undefined) return { stderr: refusal, code: 1 };
      const names = [...input.toString().matchAll(/^(\w+) SCRAM-SHA-256/gm)].map(([, name]) => name);
      admitted.push([...(program === 'admit' ? [] : ['also']), ...names].join(' '));
      return { code: 0 };
    };
  }
});
after(async () => {
  await world?.[Symbol.asyncDispose]();
});
beforeEach(() => {
  admitted = [];
  refusal = undefined;
  world.setBehaviour(() => ({ is: 'run' }));
});

const credentials = (): Promise<Credentials> => world.client.call(datastores.credentials, { params });
const rotate = (query: { force?: boolean } = {}): Promise<Credentials> =>
  world.client.call(datastores.rotate, { params, query });

async function untilIt(what: string, isSo: (now: Credentials) => boolean): Promise<Credentials> {
  return waitFor(
    async () => {
      const now = await credentials();
      return isSo(now) ? now : undefined;
    },
    { what, ...until },
  );
}

const isDone = ({ rotation }: Credentials): boolean => rotation?.state === 'done';
const isStuck = ({ rotation }: Credentials): boolean =>
  rotation !== undefined && rotation.apps.some(({ state }) => state === 'failed');

async function liveEnv(app: string): Promise<Record<string, string>> {
  const isIdle = async () => {
    const { status } = await world.deps.resources.lookup(appType, app);
    return status.deploymentId === undefined ? status : undefined;
  };
  const { releaseId: release = '' } = await waitFor(isIdle, { what: `the deployments of ${app}`, ...until });
  return (await world.client.call(releases.get, { params: { app, release } })).env;
}

async function deployEnv(app: string, env: Record<string, string>): Promise<void> {
  const { releaseId } = await world.client.call(apps.get, { params: { app } });
  const basis = releaseId === undefined ? {} : { basis: releaseId };
  const { id } = await world.client.call(releases.create, { params: { app }, body: { env, ...basis } });
  assert.equal((await world.deploy(app, id)).state, 'complete');
}

/** Of the app's new jobs. */
const onlyOf = (app: string, behaviour: Behaviour) => (job: HostJob) =>
  job.template.meta['flynn.app_name'] === app ? behaviour : { is: 'run' as const };

test('every app that has the database gets another password, and only then the former one opens nothing', async () => {
  const first = await liveEnv('shop');
  await deployEnv('blog', { ...(await liveEnv('blog')), POOL_URL: `${first['DATABASE_URL']}?pool=5` });
  assert.equal((await credentials()).login, 'app');

  await rotate();
  const done = await untilIt('the end', isDone);
  assert.deepEqual(admitted, ['also app app_1', 'app_1']);
  assert.deepEqual(done.rotation?.apps.map(({ app, state }) => [app, state]).toSorted(), [
    ['blog', 'complete'],
    ['shop', 'complete'],
  ]);
  assert.deepEqual([done.login, done.rotation?.by, done.waitingFor], ['app_1', 'root', undefined]);
  const { PGPASSWORD: password = '', ...now } = await liveEnv('shop');
  assert.notEqual(password, first['PGPASSWORD']);
  const url = `postgres://app_1:${password}@shop-postgres-primary.flynn:5432/app`;
  assert.deepEqual([now['PGUSER'], now['DATABASE_URL']], ['app_1', url]);
  assert.equal((await liveEnv('blog'))['POOL_URL'], `${url}?pool=5`);
  // What it gives from now on.
  await world.deployApp('late', web);
  await world.client.call(resources.addApp, { params: { resource: own.resourceId, app: 'late' }, body: {} });
  assert.equal((await liveEnv('late'))['PGPASSWORD'], password);
  await world.client.call(resources.removeApp, { params: { resource: own.resourceId, app: 'late' } });
});

test('an app that does not start with it keeps the former one good, and asked again it goes on', async () => {
  const former = (await liveEnv('shop'))['PGPASSWORD'];
  world.setBehaviour(onlyOf('blog', { is: 'fail', error: 'no such module' }));
  await rotate();
  const stuck = await untilIt(
    'a failure',
    (now) => isStuck(now) && !now.rotation?.apps.some((one) => one.state === 'deploying'),
  );
  assert.equal(stuck.rotation?.state, 'giving');
  const failed = stuck.rotation.apps.find(({ state }) => state === 'failed');
  assert.equal(failed?.app, 'blog');
  assert.match(failed.failure ?? '', /^v\d+ of blog failed: .*no such module/);
  // Viewers of any app that has it read this.
  assert.equal(stuck.waitingFor, 'an app that has the former password still: flynn pg credentials -a shop-postgres');
  assert.deepEqual(admitted, ['also app_1 app_2']);
  assert.equal((await liveEnv('blog'))['PGPASSWORD'], former);
  assert.notEqual((await liveEnv('shop'))['PGPASSWORD'], former);
  const [finding] = rotationFindings(
    { name: 'shop-postgres', command: 'pg' },
    await world.deps.resources.get(resourceType, own.resourceId),
    Date.now(),
  );
  assert.match(finding?.what ?? '', /blog failed/);
  assert.equal(finding?.matter, 'password');
  assert.match(finding?.remedy ?? '', /flynn pg credentials rotate -a shop-postgres/);

  await world.restartWorker();
  assert.equal((await rotate()).rotation?.state, 'giving');
  await untilIt('another failure', isStuck);
  world.setBehaviour(() => ({ is: 'run' }));
  await rotate();
  await untilIt('the end', isDone);
  assert.equal(admitted.at(-1), 'app_2');
  assert.equal((await liveEnv('blog'))['PGPASSWORD'], (await liveEnv('shop'))['PGPASSWORD']);
});

test('apps are deployed with it one by one', async () => {
  world.setBehaviour(() => ({ is: 'hang' }));
  await rotate();
  const { rotation } = await untilIt(
    'a deployment',
    ({ waitingFor }) => waitingFor === 'an app to be deployed with another password',
  );
  assert.deepEqual(rotation?.apps.map(({ state }) => state).toSorted(), ['deploying', 'waiting']);
  world.setBehaviour(() => ({ is: 'run' }));
  const begun = rotation?.apps.find(({ state }) => state === 'deploying')?.app ?? '';
  const { status } = await world.deps.resources.lookup(appType, begun);
  await world.client.call(deploymentControls.abort, { params: { deployment: status.deploymentId ?? '' }, body: {} });
  await untilIt('its end', isStuck);
  await rotate();
  await untilIt('the end', isDone);
  // And back, to the login it was.
  await rotate();
  await untilIt('the end', isDone);
});

test('a datastore that does not take it is asked again, by another worker too; nothing was given to anybody', async () => {
  const before = await liveEnv('shop');
  refusal = 'the primary is away';
  await rotate();
  await untilIt('a word of it', ({ waitingFor = '' }) =>
    /shop-postgres to take its password: .*is away/.test(waitingFor),
  );
  await world.restartWorker();
  // The same wish, and the same password.
  const next = await nextOf();
  await rotate();
  assert.equal(await nextOf(), next);
  assert.deepEqual(await liveEnv('shop'), before);
  refusal = undefined;
  await untilIt('the end', isDone);
  assert.equal((await liveEnv('shop'))['PGPASSWORD'], next);
  assert.deepEqual([...new Set(admitted)], ['also app_2 app_1', 'app_1']);
});

async function nextOf(): Promise<string | undefined> {
  const { rotation } = (await world.deps.resources.get(resourceType, own.resourceId)).status;
  return rotation?.state === 'making' ? rotation.next['PGPASSWORD'] : undefined;
}

test('what somebody wrote around it by hand is named, with who logs in, and waited for', async () => {
  const env = await liveEnv('shop');
  const { PGPASSWORD: password = '', PGUSER: login = '' } = env;
  await deployEnv('shop', { ...env, SECRET: `"${password}"`, DB_USER: login });
  await rotate();
  const stuck = await untilIt(
    'a failure',
    (now) => isStuck(now) && now.rotation?.apps.filter((one) => one.state !== 'complete').length === 1,
  );
  const failed = stuck.rotation?.apps.find(({ state }) => state === 'failed');
  assert.match(
    failed?.failure ?? '',
    /^SECRET of shop has the former password in it, as somebody set it: .*app_2.*app_1$/,
  );
  const { SECRET: _, DB_USER: _user, ...others } = await liveEnv('shop');
  await deployEnv('shop', others);
  // Nobody has to ask again.
  await untilIt('the end', isDone);
});

test('an app that does not have the database is not given its password: it is named and waited for, or shut out', async () => {
  const { PGPASSWORD: former = '', DATABASE_URL: url = '' } = await liveEnv('shop');
  const stolen = { DATABASE_URL: url, X: `postgres://app_2:${former}@x/y` };
  await world.deployApp('leaver', web);
  await deployEnv('leaver', stolen);
  await rotate();
  const isNamed = ({ rotation }: Credentials) =>
    rotation?.apps.some(({ app, failure }) => app === 'leaver' && failure !== undefined) === true;
  const stuck = await untilIt('its name', isNamed);
  assert.match(
    stuck.rotation?.apps.find(({ app }) => app === 'leaver')?.failure ?? '',
    /^DATABASE_URL, X of leaver has the former password in it, and leaver is not among the apps that have shop-postgres: .*--force -a shop-postgres/,
  );
  assert.equal(admitted.length, 1);
  assert.deepEqual(await liveEnv('leaver'), stolen);
  await rotate({ force: true });
  const done = await untilIt('the end', isDone);
  assert.deepEqual(admitted.length, 2);
  assert.equal(done.rotation?.apps.find(({ app }) => app === 'leaver')?.state, 'failed');
  assert.deepEqual(await liveEnv('leaver'), stolen);
  await world.client.call(apps.remove, { params: { app: 'leaver' } });
});

test('an app that is being led to it is waited for: what is deployed has the former password', async () => {
  await world.deployApp('next', web);
  const ofNext = { params: { app: 'next' } };
  await world.client.call(apps.update, { ...ofNext, body: { rollout: { strategy: 'canary' } } });
  await world.client.call(resources.addApp, { params: { resource: own.resourceId, app: 'next' }, body: {} });
  await rotate();
  const isThere = ({ rotation, waitingFor }: Credentials) =>
    waitingFor === 'a deployment of an app to end' && rotation?.apps.some(({ app }) => app === 'next') === true;
  await untilIt('its deployment', (now) => isThere(now) || isDone(now));
  assert.equal(admitted.length, 1);
  const { status } = await world.deps.resources.lookup(appType, 'next');
  await world.client.call(deploymentControls.abort, { params: { deployment: status.deploymentId ?? '' }, body: {} });
  await untilIt('the end', isDone);
  await world.client.call(apps.remove, ofNext);
});

test('an app that never ran gets a release with another password, and is not started by that', async () => {
  const ofYoung = { params: { app: 'young' } };
  await world.client.call(apps.create, { body: { name: 'young' } });
  await world.client.call(resources.addApp, { params: { resource: own.resourceId, app: 'young' }, body: {} });
  const { env } = await world.client.call(releases.get, { params: { app: 'young', release: 'v1' } });
  const { artifactId = '' } = await world.makeRelease('young', web);
  await world.client.call(releases.create, { ...ofYoung, body: { env, artifactId } });
  await rotate();
  await untilIt('the end', isDone);
  const [newest] = await world.client.call(releases.list, ofYoung);
  assert.equal(newest?.env['PGPASSWORD'], (await liveEnv('shop'))['PGPASSWORD']);
  const { status } = await world.deps.resources.lookup(appType, 'young');
  assert.deepEqual([status.releaseId, status.deploymentId], [undefined, undefined]);
  await world.client.call(apps.remove, ofYoung);
});

test('an app that cannot be looked at is waited for, and keeps no other from another password', async () => {
  const { release } = await world.deployApp('odd', web);
  await world.store.transact({ then: [{ delete: resourceKey('release', release.id) }] });
  const before = (await liveEnv('shop'))['PGPASSWORD'];
  await rotate();
  await untilIt(
    'the others to have it',
    ({ waitingFor, rotation }) =>
      waitingFor === 'an app to take another password, which is tried again' &&
      rotation?.apps.every(({ app, state }) => app === 'odd' || state === 'complete') === true,
  );
  assert.notEqual((await liveEnv('shop'))['PGPASSWORD'], before);
  assert.equal(admitted.length, 1);
  await rotate({ force: true });
  await untilIt('the end', isDone);
  await world.client.call(apps.remove, { params: { app: 'odd' } });
});

test('what came of a try is not put down for an app that somebody asked for again', () => {
  const begun = { state: 'giving' as const, by: 'root', startedAt: '', former: {} };
  const failed = { failure: 'v3 failed', version: 3 };
  const retried = { ...begun, apps: { a: {} } };
  assert.deepEqual(withOutcome(retried, 'a', { known: { version: 3 }, of: failed }), retried);
  assert.deepEqual(withOutcome(retried, 'a', { known: {}, of: failed }), { ...begun, apps: { a: failed } });
  assert.deepEqual(withOutcome({ ...begun, apps: {} }, 'b', { known: undefined, of: {} }), {
    ...begun,
    apps: { b: {} },
  });
});

test('an app that gives it back meanwhile keeps neither password', async () => {
  world.setBehaviour(onlyOf('blog', { is: 'fail', error: 'no such module' }));
  await rotate();
  await untilIt('a failure', isStuck);
  assert.notEqual((await liveEnv('blog'))['PGPASSWORD'], undefined);
  world.setBehaviour(() => ({ is: 'run' }));
  await world.client.call(resources.removeApp, { params: { resource: own.resourceId, app: 'blog' } });
  await untilIt('the end', isDone);
  const { POOL_URL: _own, ...env } = await liveEnv('blog');
  assert.deepEqual(env, {});
  // Its own, which has the present one in it.
  await deployEnv('blog', {});
});

test('an app that went back to a release of before has the present password again when it is asked to be', async () => {
  const now = await liveEnv('shop');
  const [, oldest] = (await world.client.call(releases.list, { params: { app: 'shop' } })).toReversed();
  assert.equal((await world.deploy('shop', oldest?.id ?? '')).state, 'complete');
  assert.equal((await liveEnv('shop'))['PGUSER'], 'app');
  const body = { isReplacing: true };
  await world.client.call(resources.addApp, { params: { resource: own.resourceId, app: 'shop' }, body });
  assert.deepEqual(await liveEnv('shop'), now);
});

test('another primary is told who logs in: what it has may be new', async () => {
  const [member] = await world.client.call(jobs.list, { params });
  const host = world.hosts.find(({ id }) => id === member?.hostId);
  await host?.say(member?.id ?? '', { goesLast: true });
  await waitFor(async () => admitted.length > 0, { what: 'the primary to be told', ...until });
  const { login } = await credentials();
  assert.deepEqual(admitted, [login]);
});

test('a record that a version of before wrote shuts nobody out; that is told, and ends with another password', async () => {
  const find = () => world.deps.resources.get(resourceType, own.resourceId);
  await world.deps.resources.updateStatus(resourceType, own.resourceId, ({ status }) => {
    const { rotation: _r, login: _l, ...known } = status;
    return known;
  });
  const { login } = await credentials();
  await waitFor(async () => (await find()).status.login !== undefined, { what: 'it to be told', ...until });
  assert.deepEqual(admitted, [`also ${login}`]);
  const [finding] = rotationFindings({ name: 'shop-postgres', command: 'pg' }, await find(), Date.now());
  assert.match(finding?.what ?? '', /a former password of it may be good/);
  await rotate();
  await untilIt('the end', isDone);
  assert.deepEqual(rotationFindings({ name: 'shop-postgres', command: 'pg' }, await find(), Date.now()), []);
});

test('no password is in what is shown, or in the trail', async () => {
  const known = new Set<string>();
  for (const { id } of await world.client.call(releases.list, { params: { app: 'shop' } })) {
    const { env } = await world.client.call(releases.get, { params: { app: 'shop', release: id } });
    if (env['PGPASSWORD'] !== undefined) known.add(env['PGPASSWORD']);
  }
  assert.ok(known.size >= 5);
  const trail = await world.client.call(audit.list, { query: { app: own.name } });
  assert.ok(trail.some(({ action }) => action === 'POST /apps/:app/datastore/credentials/rotate'));
  const shown = [
    await credentials(),
    await world.client.call(resources.get, { params: { resource: own.resourceId } }),
    await world.client.call(deployments.list, { params: { app: 'shop' } }),
    trail,
  ];
  assert.doesNotMatch(JSON.stringify(shown), new RegExp([...known].join('|')));
});
