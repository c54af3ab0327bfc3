/** Following a repository: what is looked at when, and what is made of what was found. A runner plays the looks. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { createMemoryStore } from '@flynn/store/memory';
import { apps } from '../api.ts';
import { operations } from '../operations/api.ts';
import { grants, tokens, users } from '../access/api.ts';
import { createControllerClient } from '../client.ts';
import type { Operation } from '../model.ts';
import { TestRunner } from '../operations/test-runner.ts';
import { beforeWrite } from '../testing/race-fixture.ts';
import { startTestController } from '../testing.ts';
import type { TestController, TestControllerOptions } from '../testing.ts';
import { sources } from './api.ts';
import type { Source } from './model.ts';
import { sourceType } from './resource.ts';
import { stepSource } from './steps.ts';

const params = { app: 'shop' };
const url = 'https://git.example.com/shop.git';
const first = 'a'.repeat(40);
const second = 'b'.repeat(40);
const deadlineMs = 60_000;

async function startWorld(options: TestControllerOptions = {}): Promise<TestController & { runner: TestRunner }> {
  const world = await startTestController(options);
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const client = createControllerClient({ baseUrl: world.url, key: world.userKey });
  const runner = new TestRunner({ client, id: 'r1', clusterKey: world.key });
  await runner.register();
  const dispose = async (): Promise<void> => {
    await client.close();
    await world[Symbol.asyncDispose]();
  };
  return Object.assign(Object.create(world) as TestController, { runner, [Symbol.asyncDispose]: dispose });
}

const follow = ({ client }: TestController, more: { branch?: string; everyMs?: number } = {}) =>
  client.call(sources.put, { params, body: { url, everyMs: 15_000, ...more } });
const look = ({ client }: TestController) => client.call(sources.get, { params });

/** Takes the next look, which has to be one, and ends it so. */
async function found({ runner }: { runner: TestRunner }, output: Record<string, string>): Promise<Operation> {
  const poll = await runner.claim({ signal: AbortSignal.timeout(deadlineMs) });
  assert.equal(poll.kind, 'poll');
  return runner.finish(poll.id, 'complete', { output });
}

async function sourceWhen(world: TestController, what: string, holds: (source: Source) => boolean): Promise<Source> {
  const probe = async () => {
    const source = await look(world);
    return holds(source) ? source : undefined;
  };
  return waitFor(probe, { what, deadlineMs, intervalMs: 5 });
}

/** The operations that are no looks. */
async function pushed({ client }: TestController): Promise<Operation[]> {
  return (await client.call(operations.list, { params })).filter(({ kind }) => kind !== 'poll');
}

test('a new commit is pushed once; the same one is not pushed again, but when somebody asks for it', async () => {
  await using world = await startWorld();
  assert.deepEqual((await follow(world)).branch, 'main');
  const poll = await found(world, { commit: first, sourceDigest: 'sha256:1' });
  assert.deepEqual(poll.input, { url, branch: 'main', commit: '' });
  const taken = await sourceWhen(world, 'the first commit', ({ commit }) => commit === first);
  assert.deepEqual([taken.push?.kind, taken.push?.state, taken.failures], ['build', 'queued', 0]);
  const chain = await pushed(world);
  assert.deepEqual(chain.map(({ kind }) => kind).sort(), ['build', 'deploy', 'release']);
  for (const { input } of chain) assert.deepEqual(input, { sourceDigest: 'sha256:1', commit: first, branch: 'main' });

  // While the app has operations it is not looked at.
  const build = chain.find(({ kind }) => kind === 'build');
  assert.equal(taken.isWanted, undefined);
  assert.equal((await world.client.call(sources.poll, { params })).isWanted, true);
  const next = await world.runner.claim({ signal: AbortSignal.timeout(deadlineMs) });
  assert.equal(next.id, build?.id);
  await world.runner.finish(next.id, 'failed', { error: 'it does not compile' });
  const failed = await sourceWhen(world, 'what became of it', ({ push }) => push?.state === 'failed');
  assert.equal(failed.push?.error, 'it does not compile');

  const again = await found(world, { commit: first });
  assert.equal(again.input.commit, first);
  const looked = await sourceWhen(
    world,
    'the second look',
    ({ pollId, polledAt }) => pollId === undefined && polledAt !== taken.polledAt,
  );
  assert.equal(looked.isWanted, undefined);
  assert.equal((await pushed(world)).length, 3, 'nothing was pushed for the same commit');

  await world.client.call(sources.poll, { params, query: { again: 'true' } });
  const anew = await found(world, { commit: first, sourceDigest: 'sha256:1' });
  assert.equal(anew.input.commit, '');
  await waitFor(async () => (await pushed(world)).length === 6, { what: 'the same commit anew', deadlineMs });
});

test('a folder is looked for in what is followed; what a runner sends that knows of none is not built', async () => {
  await using world = await startWorld();
  await world.client.call(apps.update, {
    params,
    body: { meta: { 'build.folder': 'apps/web', 'build.dockerfile': 'web.Dockerfile' } },
  });
  await follow(world);
  const place = { folder: 'apps/web', dockerfile: 'web.Dockerfile' };
  const old = await found(world, { commit: first, sourceDigest: 'sha256:all' });
  assert.deepEqual(old.input, { url, branch: 'main', commit: '', ...place });
  const refused = await sourceWhen(world, 'the refusal', ({ failures }) => failures === 1);
  assert.match(refused.error ?? '', /a runner of a version before looked, which knows of no folder/);
  assert.deepEqual([refused.commit, (await pushed(world)).length], [undefined, 0]);
  await world.client.call(sources.poll, { params });
  await found(world, { commit: first, sourceDigest: 'sha256:1', folder: 'apps/web' });
  await sourceWhen(world, 'the commit', ({ commit, failures }) => commit === first && failures === 0);
  const [build] = await pushed(world);
  assert.deepEqual(build?.input, { sourceDigest: 'sha256:1', commit: first, branch: 'main', ...place });
});

test('what was looked at before the app was built from elsewhere is not built: it is looked at again', async () => {
  await using world = await startWorld();
  await follow(world, { everyMs: 7 * 86_400_000 });
  await found(world, { commit: '' });
  await sourceWhen(world, 'the first look', ({ polledAt, pollId }) => polledAt !== undefined && pollId === undefined);
  // The next one is in a week, but for who wants one.
  await world.client.call(sources.poll, { params });
  const poll = await world.runner.claim({ signal: AbortSignal.timeout(deadlineMs) });
  await world.client.call(apps.update, { params, body: { meta: { 'build.folder': 'apps/web' } } });
  await world.runner.finish(poll.id, 'complete', { output: { commit: first, sourceDigest: 'sha256:all' } });
  const next = await found(world, { commit: first, sourceDigest: 'sha256:1', folder: 'apps/web' });
  assert.equal(next.input.folder, 'apps/web');
  await sourceWhen(world, 'the commit', ({ commit }) => commit === first);
  assert.deepEqual(
    (await pushed(world)).map(({ input }) => input.sourceDigest),
    ['sha256:1', 'sha256:1', 'sha256:1'],
  );
});

test('nor is it where the app comes to be built from elsewhere between a look at it and the push', async () => {
  const store = createMemoryStore();
  await using world = await startWorld({ store });
  await follow(world);
  beforeWrite(store, `-0-${first}`, () =>
    world.client.call(apps.update, { params, body: { meta: { 'build.folder': 'apps/web' } } }),
  );
  await found(world, { commit: first, sourceDigest: 'sha256:all' });
  const next = await found(world, { commit: first, sourceDigest: 'sha256:1', folder: 'apps/web' });
  assert.equal(next.input.folder, 'apps/web');
  await sourceWhen(world, 'the commit', ({ commit }) => commit === first);
  assert.deepEqual(
    (await pushed(world)).map(({ input }) => input.sourceDigest),
    ['sha256:1', 'sha256:1', 'sha256:1'],
  );
});

test('a look that fails is told, comes ever more seldom, and does not keep the next from finding something', async () => {
  await using world = await startWorld();
  await follow(world);
  const pauses: number[] = [];
  for (let failures = 1; failures <= 3; failures += 1) {
    const poll = await world.runner.claim({ signal: AbortSignal.timeout(deadlineMs) });
    await world.runner.finish(poll.id, 'failed', { error: `${url} has no branch main` });
    const source = await sourceWhen(world, `failure ${failures}`, (one) => one.failures === failures);
    assert.equal(source.error, `${url} has no branch main`);
    pauses.push(Date.parse(source.nextAt ?? '') - Date.parse(source.polledAt ?? ''));
    if (failures < 3) await world.client.call(sources.poll, { params });
  }
  for (const [index, pauseMs] of pauses.entries()) {
    const wantedMs = 15_000 * 2 ** (index + 1);
    assert.ok(pauseMs >= wantedMs * 0.89 && pauseMs <= wantedMs * 1.11, `${pauseMs} after failure ${index + 1}`);
  }
  await world.client.call(sources.poll, { params });
  await found(world, { commit: first, sourceDigest: 'sha256:1' });
  const mended = await sourceWhen(world, 'the commit', ({ commit }) => commit === first);
  assert.deepEqual([mended.failures, mended.error], [0, undefined]);
});

test('a look that somebody wants and that cannot begin is made once, and then comes as seldom as any that fails', async () => {
  await using world = await startWorld();
  await follow(world, { everyMs: 7 * 86_400_000 });
  await found(world, { commit: '' });
  await sourceWhen(world, 'the first look', ({ polledAt, pollId }) => polledAt !== undefined && pollId === undefined);
  const { id } = await world.client.call(apps.get, { params });
  await world.stopWorker();
  await world.deps.resources.change(sourceType, id, ({ spec, status }) => ({
    spec: { ...spec, url: 'https://127.0.0.1/shop.git', isOpen: false },
    status,
  }));
  await world.client.call(sources.poll, { params });
  const options = { signal: AbortSignal.timeout(deadlineMs), epoch: { key: '/nobody', modRevision: 0 } };
  for (let step = 0; step < 3; step += 1) await stepSource(world.deps, id, options);
  const { status } = await world.deps.resources.get(sourceType, id);
  assert.deepEqual([status.failures, status.isWanted], [1, false]);
});

test('a look that was put off by a clock that was ahead is due once it is right', async () => {
  await using world = await startWorld();
  const { id } = await world.client.call(apps.get, { params });
  await follow(world, { everyMs: 3_600_000 });
  await found(world, { commit: first });
  await sourceWhen(world, 'the look', ({ pollId, polledAt }) => pollId === undefined && polledAt !== undefined);
  const seat = { key: '/nobody', modRevision: 0 };
  const signal = AbortSignal.timeout(deadlineMs);
  const at = (ms: number) => stepSource({ ...world.deps, now: () => Date.now() + ms }, id, { signal, epoch: seat });
  await at(0);
  const looks = async () => (await world.deps.resources.get(sourceType, id)).status.pollId;
  assert.equal(await looks(), undefined, 'its time has not come');
  await at(-6 * 3_600_000);
  assert.notEqual(await looks(), undefined);
});

test('who wants a look while one is begun anew that may have looked by now gets another', async () => {
  await using world = await startWorld();
  const { id } = await world.client.call(apps.get, { params });
  await world.stopWorker();
  await follow(world);
  const options = { signal: AbortSignal.timeout(deadlineMs), epoch: { key: '/nobody', modRevision: 0 } };
  await stepSource(world.deps, id, options);
  // As a worker leaves it that died before it had written down that the look is there.
  await world.deps.resources.updateStatus(
    sourceType,
    id,
    ({ status }) => ({ ...status, pollId: undefined, isWanted: true }),
    options,
  );
  await found(world, { commit: '' });
  const status = await waitFor(
    async () => {
      await stepSource(world.deps, id, options);
      const { status } = await world.deps.resources.get(sourceType, id);
      return status.pollId !== undefined && status;
    },
    { what: 'the look to be found', deadlineMs, intervalMs: 5 },
  );
  assert.equal(status.isWanted, true);
  assert.equal((await world.client.call(operations.list, { params })).length, 1);
});

test('however many look at once, a look is one operation and a commit one push', async () => {
  await using world = await startWorld();
  const { id } = await world.client.call(apps.get, { params });
  await follow(world);
  const seat = { key: '/nobody', modRevision: 0 };
  const signal = AbortSignal.timeout(deadlineMs);
  const crowd = async () => {
    const all = Array.from({ length: 8 }, () => stepSource(world.deps, id, { signal, epoch: seat }));
    for (const outcome of await Promise.allSettled(all)) {
      if (outcome.status === 'rejected') assert.ok(hasCode(outcome.reason, 'conflict'), String(outcome.reason));
    }
  };
  await crowd();
  const queued = (await world.client.call(operations.list, { params })).filter(({ kind }) => kind === 'poll');
  assert.equal(queued.length, 1);
  await found(world, { commit: first, sourceDigest: 'sha256:1' });
  await crowd();
  await sourceWhen(world, 'the commit', ({ commit }) => commit === first);
  assert.equal((await pushed(world)).length, 3);
});

test('what was found of a branch that is followed no longer counts for nothing, and of looks only the last is kept', async () => {
  await using world = await startWorld();
  await follow(world);
  const poll = await world.runner.claim({ signal: AbortSignal.timeout(deadlineMs) });
  await follow(world, { branch: 'next' });
  await world.runner.finish(poll.id, 'complete', { output: { commit: first, sourceDigest: 'sha256:1' } });
  const other = await found(world, { commit: second, sourceDigest: 'sha256:2' });
  assert.equal(other.input.branch, 'next');
  await sourceWhen(world, 'the other commit', ({ commit }) => commit === second);
  const [build, ...rest] = (await pushed(world)).toSorted((a, b) => (a.kind < b.kind ? -1 : 1));
  assert.deepEqual([build?.input.commit, rest.length], [second, 2]);
  const looks = async () =>
    (await world.client.call(operations.list, { params })).filter(({ kind }) => kind === 'poll');
  await waitFor(async () => (await looks()).length === 1, {
    what: 'the earlier look to go',
    deadlineMs,
    intervalMs: 5,
  });

  await world.client.call(sources.remove, { params });
  await assert.rejects(
    look(world),
    (error) => hasCode(error, 'not_found') && /follows no repository/.test(error.message),
  );
  await follow(world);
  await world.client.call(operations.cancel, { params: { operation: build?.id ?? '' } });
  const anew = await found(world, { commit: second, sourceDigest: 'sha256:2' });
  assert.notEqual(anew.id, poll.id);
  await world.client.call(apps.remove, { params });
  const { entries } = await world.store.list('/flynn/resource/source/');
  assert.deepEqual(entries, []);
});

test('developers follow what is outside of the cluster; nobody asks for looks of their own making', async () => {
  await using world = await startWorld();
  await world.client.call(users.create, { body: { name: 'dave' } });
  await world.client.call(grants.put, {
    params: { ...params, kind: 'user', name: 'dave' },
    body: { role: 'developer' },
  });
  const { token } = await world.client.call(tokens.create, { body: { name: 'test', user: 'dave' } });
  await using developer = createControllerClient({ baseUrl: world.url, key: token });
  const at = (where: string) => developer.call(sources.put, { params, body: { url: where } });
  await assert.rejects(at('http://127.0.0.1:1111/x'), (error) => hasCode(error, 'denied'));
  await assert.rejects(at('http://localhost/x'), (error) => hasCode(error, 'denied'));
  await assert.rejects(at('file:///etc/passwd'), (error) => hasCode(error, 'invalid'));
  assert.equal((await at('https://198.51.100.7/shop.git')).url, 'https://198.51.100.7/shop.git');
  const poll = await found(world, { commit: first });
  assert.equal(poll.input.addresses, '198.51.100.7', 'the runner is to go to what was found outside, and nowhere else');
  const answer = await fetch(`${world.url}/apps/shop/operations`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ operations: [{ kind: 'poll', input: { url: 'http://127.0.0.1/' } }] }),
  });
  assert.equal(answer.status, 400);
});
