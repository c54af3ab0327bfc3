import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { waitFor } from '@flynn/kit/retry';
import { systemClock } from '@flynn/kit/clock';
import { createMemoryStore } from '@flynn/store/memory';
import type { Store } from '@flynn/store/store';
import { grants, teams, tokens, users } from '../access/api.ts';
import { apps, deployments, formations, jobs, releases } from '../api.ts';
import { routing } from '../routes/api.ts';
import { keys } from '../keys/api.ts';
import { platform } from '../platform/api.ts';
import { operations } from '../operations/api.ts';
import { runners } from '../operations/api-runners.ts';
import { TestRunner } from '../operations/test-runner.ts';
import { hosts } from '../hosts/api.ts';
import { createControllerClient } from '../client.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';

const lagMs = 150;

/** The store as a process sees it whose watches come late: what it knows from memory is old. */
function late(store: Store): Store {
  return {
    get: (key, options) => store.get(key, options),
    list: (prefix, options) => store.list(prefix, options),
    transact: (transaction, options) => store.transact(transaction, options),
    async *watch(prefix, options) {
      for await (const batch of store.watch(prefix, options)) {
        await systemClock.sleep(lagMs, { signal: options.signal });
        yield batch;
      }
    },
    grantLease: (options) => store.grantLease(options),
    compact: (revision, options) => store.compact(revision, options),
    close: async () => {},
    [Symbol.asyncDispose]: async () => {},
  };
}

type Pair = AsyncDisposable & { world: TestController; second: TestController; one: HttpClient; two: HttpClient };

/** Two controllers on one store; the second hears of everything late. */
async function twoControllers(): Promise<Pair> {
  const store = createMemoryStore();
  const second = await startTestController({ store: late(store), hosts: 0, hasWorker: false });
  const world = await startTestController({ store });
  return {
    world,
    second,
    one: world.client,
    two: second.client,
    async [Symbol.asyncDispose]() {
      await second[Symbol.asyncDispose]();
      await world[Symbol.asyncDispose]();
    },
  };
}

test('what was written through one controller is read through the other at once', async () => {
  await using pair = await twoControllers();
  const { one, two, world } = pair;
  const app = await one.call(apps.create, { body: { name: 'shop' } });
  const params = { app: 'shop' };
  assert.equal((await two.call(apps.get, { params })).id, app.id);
  assert.deepEqual(
    (await two.call(apps.list, {})).map(({ id }) => id),
    [app.id],
  );
  const release = await world.makeRelease('shop', { web: {} });
  assert.equal((await two.call(releases.list, { params }))[0]?.id, release.id);
  const deployment = await one.call(deployments.create, { params, body: { releaseId: release.id } });
  assert.equal((await two.call(deployments.get, { params: { deployment: deployment.id } })).id, deployment.id);
  assert.equal((await two.call(deployments.list, { params }))[0]?.id, deployment.id);
  const ended = async () => (await two.call(deployments.get, { params: { deployment: deployment.id } })).endedAt;
  await waitFor(ended, { what: 'the deployment', deadlineMs: 60_000 });
  for (const web of [3, 1, 4]) {
    const where = { app: 'shop', release: 'v1' };
    await one.call(formations.put, { params: where, body: { processes: { web } } });
    assert.equal((await two.call(formations.get, { params: where })).processes['web'], web);
  }
  const job = await one.call(jobs.run, { params, body: { command: ['sleep'] } });
  assert.ok((await two.call(jobs.list, { params })).some(({ workloadId }) => workloadId === job.workloadId));
  const route = await one.call(routing.create, { params, body: { domain: 'a.example.com' } });
  assert.ok((await two.call(routing.list, { params })).some(({ id }) => id === route.id));
  const body = { pushId: 'p', sourceDigest: 'x', commit: 'c', branch: 'main' };
  const [operation] = await one.call(operations.push, { params, body });
  assert.equal((await two.call(operations.get, { params: { operation: operation?.id ?? '' } })).id, operation?.id);
  assert.equal((await two.call(operations.list, { params })).length, 3);
  const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl';
  await one.call(keys.create, { body: { publicKey } });
  assert.equal((await two.call(keys.list, {})).length, 1);
  await one.call(hosts.cordon, { params: { host: 'host1' } });
  assert.equal((await two.call(hosts.get, { params: { host: 'host1' } })).state, 'cordoned');
  await one.call(hosts.uncordon, { params: { host: 'host1' } });
  assert.equal((await two.call(hosts.list, {})).find(({ id }) => id === 'host1')?.state, 'up');
});

test('what one controller was told of an operation another acts on at once', async () => {
  await using pair = await twoControllers();
  const { one, two, world, second } = pair;
  await one.call(apps.create, { body: { name: 'shop' } });
  const here = new TestRunner({ client: one, id: 'r1', clusterKey: world.key });
  const there = new TestRunner({ client: two, id: 'r1', clusterKey: world.key });
  await here.register();
  for (const id of ['a', 'b']) {
    await one.call(operations.create, {
      params: { app: 'shop' },
      body: { operations: [{ id, kind: 'build', input: {} }] },
    });
    // From here on what the second knows of it is old.
    const isHeardOf = () => second.deps.operations.snapshot.entries.has(id);
    await waitFor(isHeardOf, { what: 'the second to hear of it', deadlineMs: 30_000, intervalMs: 1 });
    const [given] = await here.assignments();
    assert.equal(given?.id, id);
    await there.acknowledge(given);
    await here.append(id, 0, ['a line']);
    assert.equal((await there.finish(id, 'complete')).state, 'complete');
    await assert.rejects(there.finish(id, 'failed'), (error) => hasCode(error, 'conflict'));
  }
});

test('who was adopted, and what has ended, is known at every controller at once', async () => {
  await using pair = await twoControllers();
  const { one, two, second } = pair;
  await one.call(apps.create, { body: { name: 'shop' } });
  const params = { app: 'shop' };
  const queue = (id: string) =>
    one.call(operations.create, { params, body: { operations: [{ id, kind: 'build', input: {} }] } });
  const token = 'a token of its own';
  const here = new TestRunner({ client: one, id: 'own', token, slots: 1 });
  const there = new TestRunner({ client: two, id: 'own', token, slots: 1 });
  const isHeardOf = (what: string, isSo: () => boolean) =>
    waitFor(isSo, { what: `the second to hear of ${what}`, deadlineMs: 30_000, intervalMs: 1 });
  await here.register();
  await isHeardOf('the runner', () => second.deps.runners.snapshot.entries.has('own'));
  await one.call(runners.adopt, { params: { runner: 'own' } });
  await queue('a');
  const [given] = await there.assignments();
  assert.equal(given?.id, 'a');
  await here.acknowledge(given);
  await isHeardOf('its operation', () => second.deps.queue.heldBy('own').size === 1);
  await here.finish('a', 'complete');
  assert.deepEqual(await two.call(operations.list, { params, query: { ended: false } }), []);
  await queue('b');
  assert.deepEqual(
    (await there.assignments()).map(({ id }) => id),
    ['b'],
    'its slot is free',
  );
  await one.call(runners.forget, { params: { runner: 'own' } });
  await new TestRunner({ client: one, id: 'own', token: 'the token of the next one' }).register();
  await new TestRunner({ client: two, id: 'own', token: 'the token of the next one' }).report({});
});

test('users, tokens and what they were given count on every controller at once', async () => {
  const store = createMemoryStore();
  await using second = await startTestController({ store: late(store), hosts: 0, hasWorker: false });
  await using first = await startTestController({ store });
  const { client } = first;
  await client.call(apps.create, { body: { name: 'shop' } });
  await client.call(users.create, { body: { name: 'ann' } });
  const { token, id } = await client.call(tokens.create, { body: { name: 'x', user: 'ann' } });
  await using ann = createControllerClient({ baseUrl: second.url, key: token });
  const get = () => ann.call(apps.get, { params: { app: 'shop' } });
  await assert.rejects(get(), (error) => hasCode(error, 'not_found'));
  await client.call(grants.put, { params: { app: 'shop', kind: 'user', name: 'ann' }, body: { role: 'viewer' } });
  assert.equal((await get()).name, 'shop');
  await client.call(teams.create, { body: { name: 'ops', role: 'developer' } });
  await client.call(teams.addMember, { params: { team: 'ops', user: 'ann' } });
  await ann.call(apps.update, { params: { app: 'shop' }, body: { meta: { a: '1' } } });
  await client.call(users.create, { body: { name: 'bob' } });
  await client.call(teams.addMember, { params: { team: 'ops', user: 'bob' } });
  const his = await client.call(tokens.create, { body: { name: 'x', user: 'bob' } });
  await using bob = createControllerClient({ baseUrl: second.url, key: his.token });
  assert.deepEqual(
    (await bob.call(apps.list, {})).map(({ name }) => name),
    ['shop'],
    'who logs in sees what the teams they were just put into see',
  );
  await client.call(tokens.revoke, { params: { token: id } });
  const isOut = async () =>
    get().then(
      () => false,
      (error: unknown) => hasCode(error, 'unauthenticated'),
    );
  await waitFor(isOut, { what: 'the token to open nothing', deadlineMs: 60_000, intervalMs: 10 });
});

test('a stream of changes goes on at another controller without losing or repeating any', async () => {
  await using pair = await twoControllers();
  const { one, two } = pair;
  const seen: string[] = [];
  let lastEventId: string | undefined;
  const listen = async (client: HttpClient, until: number): Promise<void> => {
    const ended = new AbortController();
    const resume = lastEventId === undefined ? {} : { lastEventId };
    const events = client.events(platform.events, { query: { types: 'app' } }, { signal: ended.signal, ...resume });
    for await (const { event, id, data } of events) {
      lastEventId = id ?? lastEventId;
      if (event !== 'app') continue;
      const { object } = data as { object: { name: string } };
      seen.push(object.name);
      if (seen.length >= until) break;
    }
    ended.abort();
  };
  const total = 60;
  const writing = (async () => {
    for (let index = 0; index < total; index += 1)
      await (index % 2 === 0 ? one : two).call(apps.create, { body: { name: `a-${index}` } });
  })();
  for (let until = 7; until < total; until += 7) await listen(until % 2 === 0 ? one : two, until);
  await listen(one, total);
  await writing;
  assert.deepEqual([...seen].sort(), Array.from({ length: total }, (_, index) => `a-${index}`).sort());
});
