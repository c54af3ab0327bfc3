import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { encodeFrame, readFrames } from '@flynn/kit/frames';
import type { Frame } from '@flynn/kit/frames';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys } from '@flynn/scheduler/cell';
import { jobTemplateSchema } from '@flynn/scheduler/job-template';
import { grants, tokens, users } from '../access/api.ts';
import { jobs } from '../api.ts';
import { audit } from '../audit/api.ts';
import { createControllerClient } from '../client.ts';
import { resources } from '../providers/api.ts';
import { isCode } from '../providers/provided-fixture.ts';
import { resourceType } from '../providers/types.ts';
import type { Program } from '../testing/simulated-host.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { datastores } from './api.ts';
import { makeTestDatastore, withAppliances } from './datastore-fixture.ts';
import type { TestDatastore } from './datastore-fixture.ts';

let world: TestController;
let own: TestDatastore;
before(async () => {
  world = await startTestController(withAppliances);
  await world.deployApp('shop', { web: {} });
  own = await makeTestDatastore(world, { app: 'shop' });
});
after(async () => {
  await world?.[Symbol.asyncDispose]();
});
beforeEach(() => answerWith(() => undefined));

const params = { app: 'shop-postgres' };

function answerWith(
  programs: (command: readonly string[], input: Buffer, hostId: string) => Program | undefined,
): void {
  for (const host of world.hosts) host.programs = (command, input) => programs(command, input, host.id);
}

const saying = (value: unknown): Program => ({ stdout: `${JSON.stringify(value)}\n`, code: 0 });

async function statusOf(primary: string) {
  const all = await world.client.call(jobs.list, { params });
  const members = all.map(({ address = '', hostId }) => ({
    name: `m${hostId}`,
    address,
    isPrimary: hostId === primary,
    isSynchronous: hostId !== primary,
    state: hostId === primary ? 'running' : 'streaming',
    lagBytes: hostId === primary ? null : 42,
  }));
  const database = { version: '17.6', sizeBytes: 1_000, connections: 3, maxConnections: 100 };
  return { members, database, problem: null };
}

test('a datastore tells by one of its members who is primary, how far the others are, and what each keeps', async () => {
  const said = await statusOf('host2');
  answerWith((command) => (command.at(-1) === 'status' ? saying(said) : undefined));
  const { members, ...view } = await world.client.call(datastores.get, { params });
  assert.deepEqual(view, {
    app: { id: own.id, name: own.name },
    resourceId: own.resourceId,
    kind: 'postgres',
    memoryBytes: 512 * 1024 ** 2,
    database: said.database,
  });
  assert.deepEqual(
    members.map(({ host, role, isSynchronous, state, lagBytes }) => [host, role, isSynchronous, state, lagBytes]),
    [
      ['host2', 'primary', false, 'running', undefined],
      ['host1', 'replica', true, 'streaming', 42],
    ],
  );
  assert.ok(members.every(({ volumeBytes }) => volumeBytes !== undefined));
});

test('a member that does not tell is passed over, and where none does that is said with what they said', async () => {
  const said = await statusOf('host2');
  const down: Program = { stderr: 'its Patroni is away\n', code: 1 };
  answerWith((_command, _input, hostId) => (hostId === 'host1' ? down : saying(said)));
  assert.equal((await world.client.call(datastores.get, { params })).problem, undefined);
  answerWith(() => down);
  const { members, problem, database } = await world.client.call(datastores.get, { params });
  assert.match(problem ?? '', /no member tells how it is \(.*host1: its Patroni is away.*flynn ps -a shop-postgres/);
  assert.equal(database, undefined);
  assert.deepEqual(
    members.map(({ role, state }) => [role, state]),
    [
      ['unknown', 'running'],
      ['unknown', 'running'],
    ],
  );
  answerWith(() => ({ stdout: 'nonsense', code: 0 }));
  assert.match((await world.client.call(datastores.get, { params })).problem ?? '', /cannot be understood/);
});

test('what is no datastore says so', async () => {
  const refused = isCode('invalid', /shop is no datastore.*flynn resource -a shop/);
  await assert.rejects(world.client.call(datastores.get, { params: { app: 'shop' } }), refused);
  await assert.rejects(world.client.upgrade(datastores.dump, { params: { app: 'shop' } }), refused);
});

test('another member is made the primary by its host, and the answer has hosts', async () => {
  const { members } = await statusOf('host1');
  const [first, second] = [members.find(({ isPrimary }) => isPrimary), members.find(({ isPrimary }) => !isPrimary)];
  const commands: string[][] = [];
  answerWith((command) => {
    commands.push(command.slice(1));
    return saying({ from: first?.address, to: second?.address });
  });
  const call = (body: { to?: string }) => world.client.call(datastores.switchover, { params, body });
  assert.deepEqual(await call({}), { from: 'host1', to: 'host2' });
  assert.deepEqual(await call({ to: 'host2' }), { from: 'host1', to: 'host2' });
  assert.deepEqual(commands, [['switchover'], ['switchover', second?.address ?? '']]);
  await assert.rejects(
    call({ to: 'host9' }),
    isCode('not_found', /no member that is up on host9: there are host1, host2/),
  );
  answerWith(() => ({ stderr: 'it has one member: there is no other that could take over', code: 1 }));
  await assert.rejects(call({}), isCode('conflict', /there is no other that could take over/));
});

async function templateOf(id: string) {
  const { entries } = await world.store.list(cellKeys.templatesOf(id));
  return jobTemplateSchema.parse(JSON.parse(entries[0]?.value ?? ''));
}

test('a console runs in a container of its own, with what apps are given and no more; joined by developers', async () => {
  await world.client.call(users.create, { body: { name: 'dora' } });
  const grant = { params: { app: 'shop', kind: 'user', name: 'dora' }, body: { role: 'developer' as const } };
  await world.client.call(grants.put, grant);
  const { token } = await world.client.call(tokens.create, { body: { name: 'test', user: 'dora' } });
  await using developer = createControllerClient({ baseUrl: world.url, key: token });
  const body = { args: ['--command', 'SELECT 1'] };
  const started = await developer.call(datastores.console, { params, body });
  const template = await templateOf(started.id);
  assert.deepEqual([template.entrypoint, template.command], [['psql'], body.args]);
  assert.equal(template.env['PGHOST'], 'shop-postgres-primary.flynn');
  assert.equal(template.env['PGPASSWORD'], own.secrets['POSTGRES_PASSWORD']);
  assert.deepEqual(template.volumes, []);
  assert.doesNotMatch(JSON.stringify(template), /SUPERUSER|REPLICATION|KEYSPACE|RESTAPI/);
  (await developer.upgrade(jobs.attach, { params: { ...params, job: started.id }, query: { stdin: true } })).destroy();

  await assert.rejects(
    developer.call(datastores.console, { params, body: { isSuperuser: true } }),
    isCode('denied', /the superuser of shop-postgres is for admins of the cluster/),
  );
  const superuser = await world.client.call(datastores.console, { params, body: { isSuperuser: true } });
  assert.equal((await templateOf(superuser.id)).env['PGPASSWORD'], own.secrets['POSTGRES_SUPERUSER_PASSWORD']);
  await assert.rejects(
    developer.upgrade(jobs.attach, { params: { ...params, job: superuser.id }, query: {} }),
    isCode('denied', /a shell in shop-postgres/),
  );
});

async function framesOf(socket: AsyncIterable<Frame>): Promise<Frame[]> {
  return (await Array.fromAsync(socket)).filter(({ kind }) => kind !== 'ping');
}

test('a dump is what its program writes, and its end', async () => {
  answerWith((command) => (command.at(-1) === 'dump' ? { stdout: 'archive', stderr: 'a word', code: 0 } : undefined));
  const socket = await world.client.upgrade(datastores.dump, { params });
  socket.write(encodeFrame({ kind: 'stdin-end' }));
  const frames = await framesOf(readFrames(socket));
  assert.deepEqual(
    frames.map((frame) => ('data' in frame ? [frame.kind, frame.data.toString()] : frame)),
    [['stdout', 'archive'], ['stderr', 'a word'], { kind: 'exit', code: 0 }],
  );
});

test('what is imported comes in pieces with their sizes, and is whole only if its client says so', async () => {
  const heard: string[] = [];
  answerWith((command, input) => {
    if (command.at(-1) === 'import') heard.push(input.toString());
    return { stdout: '{}', code: 0 };
  });
  const socket = await world.client.upgrade(datastores.import, { params });
  for (const text of ['one', '', 'three']) socket.write(encodeFrame({ kind: 'stdin', data: Buffer.from(text) }));
  socket.write(encodeFrame({ kind: 'stdin-end' }));
  assert.deepEqual((await framesOf(readFrames(socket))).at(-1), { kind: 'exit', code: 0 });
  const broken = await world.client.upgrade(datastores.import, { params });
  broken.end(encodeFrame({ kind: 'stdin', data: Buffer.from('four') }));
  await waitFor(() => heard.length === 2, { what: 'the other to be over', deadlineMs: 60_000, intervalMs: 5 });
  assert.deepEqual(heard, ['3\none5\nthree0\n', '4\nfour']);
  const trail = await world.client.call(audit.list, { query: { app: own.name } });
  assert.equal(
    trail.filter(({ action }) => action === 'GET /apps/:app/datastore/import').length,
    2,
    'the trail tells of both',
  );
});

test('one that was forgotten has a console still', async () => {
  await world.client.call(resources.remove, { params: { resource: own.resourceId }, query: { forget: true } });
  const gone = async () => (await world.deps.resources.find(resourceType, own.resourceId)) === undefined;
  await waitFor(gone, { what: 'its being forgotten', deadlineMs: 30_000, intervalMs: 10 });
  for (const isSuperuser of [false, true]) {
    const { id } = await world.client.call(datastores.console, { params, body: { isSuperuser } });
    assert.equal((await templateOf(id)).env['PGUSER'], isSuperuser ? 'postgres' : 'app');
  }
});
