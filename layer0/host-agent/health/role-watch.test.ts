import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import type { Instance } from '../discovery/announcer.ts';
import { AnnouncerProbe, jobOf, openHost, scenario } from '../host-fixture.ts';
import { JobMonitor } from './monitor.ts';

const until = (what: string, test: () => boolean) => waitFor(test, { what, deadlineMs: 60_000, intervalMs: 5 });

/** A database that answers on one port for which role it has, and counts who asked. */
async function database(role: 'primary' | 'replica' | 'none') {
  const it = { role, asked: 0 };
  const server = createServer((request, response) => {
    it.asked += 1;
    response.writeHead(request.url === `/${it.role}` ? 200 : 503).end();
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  const check = { type: 'http' as const, status: 200, port, intervalMs: 5, timeoutMs: 60_000 };
  return Object.assign(it, {
    port,
    /** Each is another port's: where the check looks is not what is announced. */
    roles: [
      { name: 'db', check: { ...check, path: '/primary', threshold: 3 } },
      { name: 'db-replica', check: { ...check, path: '/replica', threshold: 3 } },
    ],
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

function watched(
  ports: NonNullable<NonNullable<Parameters<typeof jobOf>[1]>['ports']>,
  options: {
    mayBeAnnounced?: boolean;
    announcer?: AnnouncerProbe;
    lines?: string[];
  } = {},
) {
  const told: string[] = [];
  const goesLast: boolean[] = [];
  const { announcer = new AnnouncerProbe(), mayBeAnnounced = false, lines = [] } = options;
  const log = silentLogger();
  const telling = Object.assign(Object.create(log) as typeof log, {
    info: (_: unknown, text: string) => lines.push(`info ${text}`),
    warn: (first: unknown, text?: string) => lines.push(`warn ${text ?? String(first)}`),
  });
  const monitor = new JobMonitor({
    job: jobOf('a', { ports }),
    address: '127.0.0.1',
    hostId: 'h1',
    mayBeAnnounced,
    announcer,
    events: {
      onUp: () => told.push('up'),
      onDown: () => told.push('down'),
      onNeverUp: (message) => told.push(message),
      onAstray: (message) => told.push(message),
      onHung: (message) => told.push(message),
      onGoesLast: (isSo) => goesLast.push(isSo),
    },
    log: telling,
  });
  return {
    told,
    goesLast,
    lines,
    announcer,
    has: (service: string) => announcer.instances.has(`${service}/h1-a`),
    async [Symbol.asyncDispose]() {
      await monitor.stop({ keepAnnounced: false });
    },
  };
}

test('a job has a role from its first good answer on, until as many bad ones in a row as it may have', async () => {
  await using it = await database('none');
  await using job = watched([{ port: 5432, roles: it.roles }]);
  await until('ten looks', () => it.asked >= 10);
  assert.deepEqual([job.told, job.announcer.calls, job.lines], [['up'], [], []], 'without a service it is up at once');
  it.role = 'primary';
  await until('the role', () => job.has('db'));
  assert.equal(job.announcer.instances.get('db/h1-a')?.address, '127.0.0.1:5432');
  assert.equal(job.announcer.instances.get('db/h1-a')?.attributes['host'], 'h1');
  it.role = 'replica';
  await until('the other role instead', () => job.has('db-replica') && !job.has('db'));
  const { asked } = it;
  it.role = 'none';
  await until('no role', () => job.announcer.instances.size === 0);
  assert.ok(it.asked >= asked + 3);
  assert.deepEqual(job.told, ['up'], 'roles say nothing of whether it is up');
  const why = `has the role no more: GET /primary on port ${it.port} answered 503, not 200`;
  const gained = 'info has the role: in discovery under its name';
  assert.deepEqual(
    job.lines.toSorted(),
    [`info ${why.replace('primary', 'replica')}`, `info ${why}`, gained, gained].toSorted(),
  );
});

test('a job that is not well has its roles all the same, and one that is well needs none', async () => {
  await using it = await database('primary');
  const never = { type: 'http' as const, path: '/never', status: 200, port: it.port, startTimeoutMs: 600_000 };
  await using job = watched([{ port: 5432, service: { name: 'shop', check: never }, roles: it.roles }]);
  await until('the role', () => job.has('db'));
  assert.deepEqual([job.told, job.has('shop')], [[], false]);
  await using standby = watched([{ port: it.port, service: { name: 'shop' }, roles: it.roles.slice(1) }]);
  await until('it to be up', () => standby.told.length > 0);
  assert.deepEqual([standby.told, standby.announcer.calls], [['up'], ['register shop']]);
});

test('what an agent before announced stays while it holds, and goes with the first answer that it does not', async () => {
  await using it = await database('replica');
  const announcer = new AnnouncerProbe();
  const before = (service: string): Instance => ({ service, id: 'h1-a', address: '127.0.0.1:5432', attributes: {} });
  for (const service of ['db', 'db-replica']) await announcer.register(before(service));
  announcer.calls.length = 0;
  await using job = watched([{ port: 5432, roles: it.roles }], { mayBeAnnounced: true, announcer });
  await until('the role that it has no more to be gone', () => !job.has('db'));
  await until('ten more looks', () => it.asked >= 12);
  assert.deepEqual(announcer.calls.toSorted(), ['deregister db', 'register db-replica']);
  assert.ok(job.has('db-replica'));
});

test('a role that is lost while discovery is away is not announced once that is back', async () => {
  await using it = await database('primary');
  class Away extends AnnouncerProbe {
    tries = 0;
    isBack = false;
    override async register(instance: Instance): Promise<void> {
      this.tries += 1;
      if (!this.isBack) throw new FlynnError('unavailable', 'the store is away');
      return super.register(instance);
    }
  }
  const announcer = new Away();
  await using job = watched([{ port: 5432, roles: it.roles }], { announcer });
  await until('three tries', () => announcer.tries >= 3);
  it.role = 'none';
  await until('it to be taken back', () => announcer.calls.includes('deregister db'));
  announcer.isBack = true;
  const { asked } = it;
  await until('ten more looks', () => it.asked >= asked + 10);
  assert.equal(announcer.instances.size, 0);
  assert.equal(job.lines.filter((line) => line.startsWith('warn')).length, 1, 'it is told once');
});

test('roles leave discovery with the services, before the job is stopped', () =>
  scenario(async ({ engine, store }) => {
    await using it = await database('primary');
    const ports = [{ port: it.port, service: { name: 'shop' }, roles: it.roles }];
    const job = jobOf('a', { ports });
    const announced: number[] = [];
    const asked: unknown[] = [];
    const agent = await openHost({
      engine: {
        ...engine,
        stop: async (...of) => (announced.push(agent.announcer.instances.size), engine.stop(...of)),
      },
      store,
      routers: {
        missing: async (word) => (asked.push(word), []),
        haveEnded: async () => true,
      },
    });
    await agent.assign([job]);
    await agent.reach(job, 'running', (s) => s.state === 'running');
    await until('service and role', () => agent.announcer.instances.size === 2);
    await agent.assign([{ ...job, desired: 'stop' }]);
    await agent.reach(job, 'done', (s) => s.isFinal);
    assert.deepEqual(announced, [0]);
    const services = ['shop', 'db', 'db-replica'].map((service) => ({ service, down: [job.id] }));
    assert.deepEqual(asked, [{ services }]);
    await agent.stop();
  }));

test('whether a job has a role whose holder goes last is told with each look, and of other roles nothing is', async () => {
  await using it = await database('replica');
  const [primary, replica] = it.roles;
  assert.ok(primary && replica);
  await using job = watched([{ port: 5432, roles: [{ ...primary, goesLast: true }, replica] }]);
  await until('the other role', () => job.has('db-replica') && job.goesLast.length > 0);
  assert.ok(!job.goesLast.includes(true));
  it.role = 'primary';
  await until('it to be so', () => job.goesLast.at(-1) === true);
  it.role = 'replica';
  await until('it to be so no more', () => job.goesLast.at(-1) === false);
});
