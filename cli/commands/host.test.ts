import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hosts } from '@flynn/controller/hosts/api';
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import { startLoopback } from '@flynn/kit/loopback';
import { waitFor } from '@flynn/kit/retry';
import { saveClusters } from '../clusters/clusters.ts';
import { runCli } from '../program.ts';
import { Desk, openDeskWithController, quickClock } from '../testing.ts';

const web = { web: { ports: [{ port: 8080 }] } };

test('`host list` and `host show` tell of hosts in columns and in JSON', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('shop', web);
  const list = await env.desk.run(['host', 'list']);
  const rows = list.stdout.trimEnd().split('\n');
  assert.match(rows[0] ?? '', /^ID +STATE +ADDRESS +JOBS +MEMORY +CPU +UP +TAGS$/);
  assert.match(rows[1] ?? '', /^host1 +up +127\.0\.0\.1 +\d+ +\d+\.\d\/64\.0GiB +\d+\.\d\/64\.0cores +\d+\w +-$/);
  const withoutUptime = (text: string): string => text.replace(/ +\d+\w+ +-$/gm, '');
  assert.equal(withoutUptime((await env.desk.run(['host'])).stdout), withoutUptime(list.stdout));
  const parsed = JSON.parse((await env.desk.run(['host', 'list', '--json'])).stdout) as { id: string }[];
  assert.deepEqual(
    parsed.map(({ id }) => id),
    ['host1', 'host2'],
  );
  const shown = await env.desk.run(['host', 'show', 'host1']);
  assert.match(shown.stdout, /^id +host1\nstate +up\n/);
  const missing = await env.desk.run(['host', 'show', 'nowhere']);
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /there is no host "nowhere"; list them with: flynn host list/);
});

test('tags are set and unset; what sets nothing is told before anything is asked', async () => {
  await using env = await openDeskWithController();
  assert.equal((await env.desk.run(['host', 'tag', 'host1', 'disk=ssd', 'zone=a'])).stdout, 'disk=ssd\nzone=a\n');
  assert.equal((await env.desk.run(['host', 'untag', 'host1', 'disk'])).stdout, 'zone=a\n');
  assert.equal((await env.desk.run(['host', 'tags', 'host1'])).stdout, 'zone=a\n');
  const wrong = await env.desk.run(['host', 'tag', 'host1', 'disk']);
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /"disk" sets nothing: write NAME=VALUE/);
});

test('`host drain --wait` ends when the host is empty; `undrain` opens it again', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('shop', web);
  const drained = await env.desk.run(['host', 'drain', 'host1', '--deadline', '10m', '--max-parallel', '2', '--wait']);
  assert.equal(drained.code, 0, drained.stderr);
  assert.match(drained.stdout, /host1 is empty\n$/);
  const view = await env.controller.client.call(hosts.get, { params: { host: 'host1' } });
  assert.equal(view.state, 'draining');
  assert.match((await env.desk.run(['host', 'undrain', 'host1'])).stdout, /^host1 takes jobs\n$/);
  await env.desk.run(['host', 'cordon', 'host1']);
  await env.desk.run(['host', 'drain', 'host1']);
  const closed = /^host1 keeps its jobs, and is cordoned: "flynn host uncordon host1" opens it/;
  assert.match((await env.desk.run(['host', 'undrain', 'host1'])).stdout, closed);
  assert.match((await env.desk.run(['host', 'uncordon', 'host1'])).stdout, /^host1 takes jobs\n$/);
  assert.doesNotMatch(drained.stderr, /no other host/);
  const wrong = await env.desk.run(['host', 'drain', 'host1', '--deadline', 'soon']);
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /"soon" is no length of time/);
});

test('`host drain --wait` says what it waits for, once', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('shop', { db: { volumes: [{ name: 'data', path: '/data' }] } });
  await env.desk.run(['-a', 'shop', 'scale', 'db=1']);
  const [{ hostId = '' } = {}] = await env.controller.jobsOf('shop', 1);
  const io = env.desk.io();
  const ran = runCli(['host', 'drain', hostId, '--wait'], io);
  const told = `waits: db of shop stays with its data, and no deadline ends it: flynn host drain ${hostId} --deadline`;
  const isTold = () => io.stdout.text.includes(told);
  await waitFor(isTold, { what: 'what it waits for', deadlineMs: 60_000, intervalMs: 20 });
  assert.match((await env.desk.run(['host', 'show', hostId])).stdout, /^waits +db of shop stays with its data/m);
  await env.desk.run(['host', 'undrain', hostId]);
  assert.equal(await ran, 1);
  assert.equal(io.stdout.text.split('waits:').length, 2, 'it is told once');
});

test('`host drain` of the only host says that nothing moves', async () => {
  await using env = await openDeskWithController({ hosts: 1 });
  await env.controller.deployApp('shop', web);
  const { code, stdout, stderr } = await env.desk.run(['host', 'drain', 'host1']);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^host1 is draining/);
  assert.match(stderr, /^note: no other host takes jobs now\. .*"flynn host undrain host1" calls it off\n$/);
});

test('`host drain --wait` waits through a controller that is away for a while; of one that stays away it is told what goes on', async () => {
  const view = { id: 'host1', state: 'draining' as const, claimed: { memoryBytes: 0, cpuMillis: 0 }, jobs: 1 };
  const draining = { ...view, attributes: {}, tags: {}, drain: { startedAt: '2026-01-01T00:00:00Z', maxParallel: 1 } };
  let answers = 0;
  let awayFor = 3;
  await using loopback = await startLoopback([
    handle(hosts.drain, async () => draining),
    handle(hosts.list, async () => [draining]),
    handle(hosts.get, async () => {
      answers += 1;
      // The client by itself asks again for a while: this is after it.
      if (answers <= awayFor) throw new FlynnError('exhausted', 'no controller is there');
      return { ...draining, jobs: 0, list: [], volumes: [], waits: [] };
    }),
  ]);
  await using desk = await Desk.open();
  await saveClusters(desk.configDirectory, {
    clusters: [{ name: 'x', controllerUrl: loopback.server.url, key: 'k', gitUrl: 'g', domain: 'd', httpPort: 80 }],
  });
  const argv = ['host', 'drain', 'host1', '--wait'];
  const back = await desk.run(argv, { clock: quickClock() });
  assert.equal(back.code, 0, back.stderr);
  assert.match(back.stdout, /host1 is empty\n$/);
  assert.match(back.stderr, /no controller is there\): asking again\n/);
  awayFor = Infinity;
  const away = await desk.run(argv, { clock: quickClock() });
  assert.equal(away.code, 1);
  assert.match(away.stderr, /nobody has answered for 1m; host1 goes on draining: "flynn host show host1" tells/);
});

test('Ctrl-C while `host drain` waits for copies of blobs begins nothing', async () => {
  const soleCopies = { count: 2, bytes: 3e6, digests: [] };
  await using loopback = await startLoopback([
    handle(hosts.drain, async () => {
      throw new FlynnError('conflict', 'host1 alone has 2 blobs', { detail: { soleCopies } });
    }),
  ]);
  await using desk = await Desk.open();
  await saveClusters(desk.configDirectory, {
    clusters: [{ name: 'x', controllerUrl: loopback.server.url, key: 'k', gitUrl: 'g', domain: 'd', httpPort: 80 }],
  });
  const io = desk.io();
  const ran = runCli(['host', 'drain', 'host1'], io);
  const isTold = () => io.stdout.text.includes('waiting until another has them');
  await waitFor(isTold, { what: 'what it waits for', deadlineMs: 60_000, intervalMs: 20 });
  assert.equal(io.signal('SIGINT'), 1);
  assert.equal(await ran, 1);
  assert.match(io.stderr.text, /stopped: host1 is not drained/);
});

test('`host remove` wants --yes, and refuses a host that is up', async () => {
  await using env = await openDeskWithController();
  assert.equal((await env.desk.run(['host', 'remove', 'host1'])).code, 2);
  const refused = await env.desk.run(['host', 'remove', '-y', 'host1']);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /host host1 is up/);
});

test('of an evaluation that waits for its time `eval list` and `eval info` say until when', async () => {
  await using env = await openDeskWithController();
  const { app, release } = await env.controller.deployApp('shop', web);
  const waitUntil = Date.now() + 10 * 60_000;
  const workloadId = `${app.id}-${release.id}-web`;
  const later = { id: 'later', workloadId, cause: 'retry', state: 'pending', createdAt: Date.now(), waitUntil };
  await env.controller.store.transact({
    then: [{ put: '/flynn/cell/evaluations/later', value: JSON.stringify(later) }],
  });
  const list = await waitFor(
    async () => {
      const { stdout } = await env.desk.run(['eval', 'list', '-a', 'shop', '--state', 'pending']);
      return stdout.includes('later') ? stdout : undefined;
    },
    { what: 'the evaluation', deadlineMs: 30_000, intervalMs: 20 },
  );
  const at = new Date(waitUntil).toISOString();
  assert.match(list, new RegExp(`^later +pending +retry +shop .* not before ${at} \\(in (9|10)m\\)$`, 'm'));
  const info = await env.desk.run(['eval', 'info', 'later']);
  assert.match(info.stdout, new RegExp(`^not before +${at} \\(in (9|10)m\\)$`, 'm'));
});

test('`eval list` and `eval info` say what waits and why', async () => {
  await using env = await openDeskWithController({ memoryBytes: 1024 ** 3 });
  await env.controller.deployApp('shop', web);
  await env.desk.run(['-a', 'shop', 'scale', '--no-wait', 'web=100']);
  const id = await waitFor(
    async () => {
      const { stdout } = await env.desk.run(['eval', 'list', '-a', 'shop', '--state', 'blocked', '--json']);
      return (JSON.parse(stdout) as { id: string }[])[0]?.id;
    },
    { what: 'a blocked evaluation', deadlineMs: 30_000, intervalMs: 20 },
  );
  const list = await env.desk.run(['eval', 'list', '-a', 'shop', '--state', 'blocked']);
  assert.match(
    list.stdout,
    /^ID +STATE +CAUSE +APP +WORKLOAD +AGE +NOTE\n\S+ +blocked +\S+ +shop .*\d+ placed, \d+ waiting: memory/,
  );
  const info = await env.desk.run(['eval', 'info', id]);
  assert.match(info.stdout, /^state +blocked$/m);
  assert.match(info.stdout, /^obstacle +memory \(2 hosts\)$/m);
  const wrong = await env.desk.run(['eval', 'list', '--state', 'stuck']);
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /"stuck" is no state: one of pending/);
});
