/** What somebody may no longer do, they may not from the answer on that says so, however late the watches tell of it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { apps } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { generic } from '../generic/api.ts';
import { runners } from '../operations/api-runners.ts';
import { runnerCredential } from '../operations/runner-token.ts';
import { platform } from '../platform/api.ts';
import { startTestController, type TestController } from '../testing.ts';
import { slowlyTold } from '../testing/slow-watch.ts';
import { self, teams, tokens, users } from './api.ts';
import { heardIn } from './heard.ts';

let world: TestController;

before(async () => {
  const store = slowlyTold(...['user', 'team', 'token', 'runner'].map((type) => `/flynn/resource/${type}/`));
  world = await startTestController({ store, hosts: 0, hasWorker: false });
});
after(() => world[Symbol.asyncDispose]());

/** Somebody new who is here already: what they may is known. */
async function comes(user: string, body: { role?: 'developer' } = {}) {
  await world.client.call(users.create, { body: { name: user, ...body } });
  const { id, token } = await world.client.call(tokens.create, { body: { name: 'laptop', user } });
  const client = createControllerClient({ baseUrl: world.url, key: token });
  assert.equal((await client.call(self.get, {})).name, user);
  return { id, client, [Symbol.asyncDispose]: () => client.close() };
}

const isRefused = (code: 'denied' | 'unauthenticated') => (error: unknown) => hasCode(error, code);
let apart = 0;
const makeApp = ({ client }: Pick<TestController, 'client'>) =>
  client.call(apps.create, { body: { name: `app${(apart += 1)}` } });

test('a token that was taken back opens nothing, by its own route or as an object', async () => {
  await using ann = await comes('ann');
  await world.client.call(tokens.revoke, { params: { token: ann.id } });
  await assert.rejects(ann.client.call(self.get, {}), isRefused('unauthenticated'));
  await using bob = await comes('bob');
  const kind = { group: 'flynn', version: 'v1', kind: 'Token' };
  await world.client.call(generic.remove, { params: { ...kind, name: bob.id } });
  await assert.rejects(bob.client.call(self.get, {}), isRefused('unauthenticated'));
});

test('who was removed is nobody, and who has a lesser role does no more than that', async () => {
  await using cyd = await comes('cyd', { role: 'developer' });
  await makeApp(cyd);
  await world.client.call(users.update, { params: { user: 'cyd' }, body: { role: 'viewer' } });
  await assert.rejects(makeApp(cyd), isRefused('denied'));
  await world.client.call(users.remove, { params: { user: 'cyd' } });
  await assert.rejects(cyd.client.call(self.get, {}), isRefused('unauthenticated'));
});

test('who left a team has nothing of it, nor has anybody once it has less, or is gone', async () => {
  await using dan = await comes('dan');
  const member = { params: { team: 'makers', user: 'dan' } };
  for (const take of [
    () => world.client.call(teams.removeMember, member),
    () => world.client.call(teams.update, { params: { team: 'makers' }, body: { role: null } }),
    () => world.client.call(teams.remove, { params: { team: 'makers' } }),
  ]) {
    const made = world.client.call(teams.create, { body: { name: 'makers', role: 'developer' } });
    await made.catch((error: unknown) => assert.ok(hasCode(error, 'conflict')));
    await world.client.call(teams.update, { params: { team: 'makers' }, body: { role: 'developer' } });
    await world.client.call(teams.addMember, member);
    await makeApp(dan);
    await take();
    await assert.rejects(makeApp(dan), isRefused('denied'), String(take));
  }
});

test('a runner that was forgotten is nobody', async () => {
  const params = { runner: 'office' };
  const { token } = await world.client.call(runners.add, { params, body: { labels: {} } });
  await using office = createControllerClient({ baseUrl: world.url, key: runnerCredential('office', token) });
  assert.ok(world.deps.runners.snapshot.entries.has('office'), 'one that was added is known');
  assert.equal((await office.call(platform.cluster, {})).name, 'test');
  await world.client.call(runners.forget, { params });
  await assert.rejects(office.call(platform.cluster, {}), isRefused('unauthenticated'));
});

test('what was carried out is answered as that, though the watch tells nothing of it', async () => {
  const asked: number[] = [];
  const { runners: mirror } = world.deps;
  const reached: typeof mirror.reached = (revision, options) => {
    asked.push(revision);
    return mirror.reached(Number.MAX_SAFE_INTEGER, options);
  };
  const heard = heardIn({ runner: { reached } }, { deadlineMs: 20 });
  const change = (type: string) => ({
    key: type,
    change: { type, id: 'x', action: 'delete' as const },
    spec: undefined,
  });
  const commits = [
    { revision: 5, changes: [change('runner'), change('app'), change('runner')] },
    { revision: 6, changes: [change('app')] },
  ];
  await heard(commits, AbortSignal.timeout(60_000));
  assert.deepEqual(asked, [5]);
});
