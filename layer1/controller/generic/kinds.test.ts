/** The kinds whose objects have rules of their own: lines of cron, drains, people and their tokens, runners. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { ErrorCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { grants, self, teams, tokens, users } from '../access/api.ts';
import { apps, formations, releases } from '../api.ts';
import { routing } from '../routes/api.ts';
import { drains } from '../drains/api.ts';
import { keys } from '../keys/api.ts';
import { crons } from '../cron/api.ts';
import { createControllerClient } from '../client.ts';
import { runners } from '../operations/api-runners.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { generic } from './api.ts';

let world: TestController;
before(async () => {
  world = await startTestController();
});
after(async () => {
  await world?.[Symbol.asyncDispose]();
});

const of = (kind: string) => ({ group: 'flynn', version: 'v1', kind });
const isCode = (code: ErrorCode, pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);
const apply = (kind: string, body: object, client = world.client) =>
  client.call(generic.apply, { params: of(kind), body });
const get = (kind: string, name: string, client = world.client) =>
  client.call(generic.get, { params: { ...of(kind), name } });
const patch = (kind: string, name: string, body: object) =>
  world.client.call(generic.patch, { params: { ...of(kind), name }, body });
const remove = (kind: string, name: string, client = world.client) =>
  client.call(generic.remove, { params: { ...of(kind), name } });
const namesOf = async (kind: string, client = world.client) =>
  (await client.call(generic.list, { params: of(kind) })).map(({ name }) => name);

/** A client of somebody new. */
async function somebody(name: string, role?: 'viewer' | 'developer') {
  await world.client.call(users.create, { body: { name, ...(role && { role }) } });
  const { token } = await world.client.call(tokens.create, { body: { name: 'test', user: name } });
  return createControllerClient({ baseUrl: world.url, key: token });
}

test('users and teams are made, changed and removed, with all that goes with them', async () => {
  assert.equal((await apply('User', { name: 'ada', spec: { role: 'viewer' } })).outcome, 'created');
  assert.equal((await apply('User', { name: 'bob' })).outcome, 'created');
  assert.equal((await apply('User', { name: 'ada', spec: {} })).outcome, 'unchanged');
  assert.deepEqual((await get('User', 'bob')).spec, { role: null });
  const changed = await apply('User', { name: 'ada', spec: { role: 'developer' } });
  assert.deepEqual(changed.changes, [{ path: 'spec.role', before: 'viewer', after: 'developer' }]);
  await patch('User', 'ada', { spec: { role: null } });
  assert.equal((await world.client.call(users.get, { params: { user: 'ada' } })).role, undefined);
  await apply('Team', { name: 'front', spec: { role: 'viewer', members: ['bob', 'ada'] } });
  assert.deepEqual((await get('Team', 'front')).spec, { role: 'viewer', members: ['ada', 'bob'] });
  assert.equal((await apply('Team', { name: 'front', spec: { members: ['ada', 'bob'] } })).outcome, 'unchanged');
  await assert.rejects(
    apply('Team', { name: 'front', spec: { members: ['ada', 'eve'] } }),
    isCode('invalid', /spec\.members\.1: there is no user "eve"/),
  );
  const { token } = await world.client.call(tokens.create, { body: { name: 'laptop', user: 'ada' } });
  await using client = createControllerClient({ baseUrl: world.url, key: token });
  assert.equal((await client.call(self.get, {})).role, 'viewer', 'by the team');
  await remove('User', 'ada');
  assert.deepEqual((await get('Team', 'front')).spec['members'], ['bob']);
  await assert.rejects(client.call(self.get, {}), (error) => hasCode(error, 'unauthenticated'));
  await remove('Team', 'front');
  assert.deepEqual(await world.client.call(teams.list, {}), []);
  for (const [body, pattern] of [
    [{ spec: {} }, /name: a user has a name/],
    [{ name: 'No Name' }, /name: expected lower-case/],
    [{ name: 'x', owner: 'user/bob' }, /owner: a user belongs to nothing/],
    [{ name: 'x', spec: { role: 'king' } }, /spec\.role/],
  ] as const)
    await assert.rejects(apply('User', body), isCode('invalid', pattern));
});

test('a token is shown without what it opens with, cannot be made as an object, and is taken back by deleting it', async () => {
  const made = await world.client.call(tokens.create, { body: { name: 'ci', role: 'viewer' } });
  const shown = await get('Token', made.id);
  assert.deepEqual([shown.spec['for'], shown.spec['role']], ['ci', 'viewer']);
  assert.doesNotMatch(JSON.stringify(shown), /hash/);
  assert.match(made.token, /^flynn_[a-z0-9]{12}_[A-Za-z0-9_-]{43}$/);
  assert.ok(!JSON.stringify(shown).includes(made.token.slice(-43)), 'what it opens with');
  await assert.rejects(apply('Token', { name: 'x' }), isCode('denied', /not made or changed here/));
  await remove('Token', made.id);
  await using client = createControllerClient({ baseUrl: world.url, key: made.token });
  await assert.rejects(client.call(self.get, {}), (error) => hasCode(error, 'unauthenticated'));
});

test('a line of cron is looked at and paused; it comes and goes with its release', async () => {
  const cron = [{ schedule: '0 3 * * *', timezone: 'UTC', command: 'tidy', overlap: 'forbid' as const }];
  await world.deployApp('clock', { web: {} });
  const next = await world.client.call(releases.create, { params: { app: 'clock' }, body: { cron } });
  await world.deploy('clock', next.id);
  const listed = async () => (await world.client.call(crons.list, { params: { app: 'clock' } }))[0];
  const line = await waitFor(listed, { what: 'the line of cron', deadlineMs: 60_000, intervalMs: 5 });
  const name = `clock/${line.id}`;
  assert.deepEqual(await namesOf('Cron'), [name]);
  const shown = await get('Cron', name);
  assert.deepEqual([shown.owner, shown.spec, shown.status['command']], ['app/clock', { isPaused: false }, 'tidy']);
  assert.equal((await apply('Cron', { name, spec: { isPaused: true } })).outcome, 'configured');
  assert.equal((await apply('Cron', { name, spec: { isPaused: true } })).outcome, 'unchanged');
  const [paused] = await world.client.call(crons.list, { params: { app: 'clock' } });
  assert.deepEqual([paused?.isPaused, paused?.nextAt], [true, undefined]);
  await assert.rejects(remove('Cron', name), isCode('denied', /comes with what it is of/));
  await assert.rejects(apply('Cron', { name: 'clock/none', spec: {} }), isCode('invalid', /name: no line of cron/));
});

test('a drain is made once for its address, shown without its secrets, and can be put back as it was got', async () => {
  await world.client.call(apps.create, { body: { name: 'talker' } });
  const url = 'https://me:hunter2@logs.example.com/in';
  const body = { owner: 'app/talker', spec: { url } };
  const made = await apply('Drain', body);
  assert.equal(made.outcome, 'created');
  assert.equal((await apply('Drain', body)).outcome, 'unchanged');
  const shown = await get('Drain', made.name);
  assert.deepEqual([shown.owner, shown.spec], ['app/talker', { url: 'https://***@logs.example.com/in' }]);
  const back = await world.client.call(generic.put, { params: { ...of('Drain'), name: made.name }, body: shown });
  assert.equal(back.outcome, 'unchanged');
  const labelled = await apply('Drain', { ...body, labels: { to: 'ops' } });
  assert.deepEqual(labelled.changes, [{ path: 'labels.to', after: 'ops' }]);
  const other = { ...body, name: made.name, spec: { url: 'https://other.example.com' } };
  await assert.rejects(apply('Drain', other), isCode('invalid', /spec\.url: a drain keeps its address/));
  const hidden = { owner: 'app/talker', spec: { url: 'https://***@elsewhere.example.com' } };
  await assert.rejects(apply('Drain', hidden), isCode('invalid', /give the address with its secrets/));
  await assert.rejects(apply('Drain', { spec: { url: 'ftp://x' } }), isCode('invalid', /spec\.url: .*is no drain/));
  await remove('Drain', made.name);
  assert.deepEqual(await world.client.call(drains.list, {}), []);
});

test('runners are looked at, without their tokens', async () => {
  const body = { token: 'a token of its own', session: 's', version: '1' };
  const root = createControllerClient({ baseUrl: world.url, key: world.userKey });
  await root.call(runners.register, { params: { runner: 'r1' }, body });
  await root.close();
  const shown = await get('Runner', 'r1');
  assert.deepEqual([shown.status['state'], shown.spec['tokenHash']], ['pending', undefined]);
  await assert.rejects(remove('Runner', 'r1'), isCode('denied', /comes with what it is of/));
});

test('a patch of an app or a formation is of the state it names, and leaves alone what it does not name', async () => {
  const { app } = await world.deployApp('patched', { web: {} });
  const before = await get('App', 'patched');
  const revision = before.metadata.revision;
  await patch('App', 'patched', { spec: { meta: { a: '1' } }, metadata: { revision } });
  await assert.rejects(
    patch('App', 'patched', { spec: { meta: { a: '2' } }, metadata: { revision } }),
    isCode('conflict', /app patched is at revision \d+, not \d+: read it again/),
  );
  assert.deepEqual((await get('App', 'patched')).spec['meta'], { a: '1' });
  const formation = await get('Formation', 'patched');
  const at = { revision: formation.metadata.revision };
  await patch('Formation', 'patched', { spec: { processes: { web: 2 } }, metadata: at });
  await assert.rejects(
    patch('Formation', 'patched', { spec: { processes: { web: 3 } }, metadata: at }),
    isCode('conflict', /read it again/),
  );
  // Its counts are no part of what this one names.
  await patch('App', 'patched', { spec: { meta: { a: '3' } } });
  const release = app.releaseId ?? formation.metadata.id;
  const scaled = await world.client.call(formations.get, { params: { app: 'patched', release } });
  assert.equal(scaled.processes['web'], 2);
  await assert.rejects(patch('App', 'patched', { spec: { image: null } }), isCode('invalid', /spec\.image/));
});

test('each sees and changes what their role on the app allows; the rest is not there for them', async () => {
  await world.deployApp('mine', { web: {} });
  const env = { PASSWORD: 'hunter2' };
  const made = await world.client.call(releases.create, { params: { app: 'mine' }, body: { env } });
  await world.deploy('mine', made.id);
  await world.client.call(apps.create, { body: { name: 'theirs' } });
  await using viewer = await somebody('vera');
  await using developer = await somebody('dave');
  await using cluster = await somebody('clara', 'developer');
  const give = (name: string, role: 'viewer' | 'developer') =>
    world.client.call(grants.put, { params: { app: 'mine', kind: 'user', name }, body: { role } });
  await give('vera', 'viewer');
  await give('dave', 'developer');

  for (const client of [viewer, developer]) {
    assert.deepEqual(await namesOf('App', client), ['mine']);
    const formed = await namesOf('Formation', client);
    assert.ok(formed.includes('mine/v2') && formed.every((name) => name.startsWith('mine/')), formed.join());
    await assert.rejects(get('App', 'theirs', client), isCode('not_found', /no app "theirs"/));
    await assert.rejects(
      apply('App', { name: 'theirs', spec: { meta: {} } }, client),
      isCode('denied', /may not change/),
    );
    await assert.rejects(apply('App', { name: 'new' }, client), isCode('denied', /may not change/));
    const elsewhere = { owner: 'app/theirs', spec: { domain: 'x.example.com' } };
    await assert.rejects(apply('Route', elsewhere, client), isCode('invalid', /no app "theirs"/));
    await assert.rejects(namesOf('User', client), isCode('denied', /may not list/));
    assert.deepEqual(await namesOf('Key', client), []);
  }
  // What is not theirs to lead requests to, or to take them from, is not by a file either.
  await world.client.call(routing.create, { params: { app: 'theirs' }, body: { domain: 'theirs.example.com' } });
  for (const [spec, why] of [
    [{ domain: 'x.example.com', service: 'theirs-web' }, /theirs-web is no service of mine/],
    [{ domain: 'theirs.example.com', path: '/taken' }, /theirs\.example\.com is another app's/],
  ] as const) {
    await assert.rejects(apply('Route', { owner: 'app/mine', spec }, developer), isCode('denied', why));
    await assert.rejects(apply('App', { name: 'mine', spec: { routes: [spec] } }, developer), isCode('denied', why));
  }
  assert.deepEqual((await get('App', 'mine', viewer)).spec['env'], { PASSWORD: '[hidden]' });
  assert.deepEqual((await get('App', 'mine', developer)).spec['env'], { PASSWORD: 'hunter2' });
  assert.doesNotMatch(JSON.stringify(await viewer.call(generic.list, { params: of('Release') })), /hunter2/);
  const counts = { name: 'mine', spec: { processes: { web: 2 } } };
  await assert.rejects(apply('Formation', counts, viewer), isCode('denied', /may not change/));
  assert.equal((await apply('Formation', counts, developer)).outcome, 'configured');
  await assert.rejects(remove('App', 'mine', developer), isCode('denied', /only an admin of the app/));
  assert.deepEqual(await namesOf('App', cluster), await namesOf('App'));
  await apply('App', { name: 'clara-own' }, cluster);
  const own = await world.client.call(grants.list, { params: { app: 'clara-own' } });
  assert.deepEqual(
    own.map(({ name, role }) => [name, role]),
    [['clara', 'admin']],
  );

  const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl';
  await apply('Key', { spec: { publicKey } }, developer);
  assert.equal((await namesOf('Key', developer)).length, 1);
  assert.equal((await namesOf('Key', viewer)).length, 0);
  assert.equal((await developer.call(keys.list, {})).length, 1);
  assert.equal((await namesOf('Token', developer)).length, 1);
});

test('a watch tells each only of their apps', async () => {
  await using viewer = await somebody('watcher');
  await world.client.call(grants.put, {
    params: { app: 'mine', kind: 'user', name: 'watcher' },
    body: { role: 'viewer' },
  });
  const signal = AbortSignal.timeout(60_000);
  const stop = new AbortController();
  const told: string[] = [];
  const events = viewer.events(
    generic.watch,
    { params: of('App') },
    { signal: AbortSignal.any([signal, stop.signal]) },
  );
  for await (const { event, data } of events) {
    if (event === 'current') {
      await apply('App', { name: 'unseen' });
      await apply('App', { name: 'mine', labels: { seen: 'yes' } });
    } else {
      told.push(JSON.stringify(data));
      if (told.at(-1)?.includes('"seen"') === true) stop.abort();
    }
  }
  assert.ok(told.every((text) => text.includes('"name":"mine"') && !text.includes('hunter2')));
});
