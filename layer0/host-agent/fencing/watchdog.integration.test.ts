/** The watchdog on real containers, without any agent's help. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { openDocker, testImage } from '../docker/fixture.ts';
import { jobOf } from '../host-fixture.ts';
import { containerSpecOf } from '../containers/spec.ts';
import { Watchdog } from './watchdog.ts';

test('a deadline nobody extends kills what it guards and nothing else, whoever started the watchdog', async () => {
  const fixture = await openDocker();
  const { engine, cluster, network } = fixture;
  const dir = await mkdtemp(join(tmpdir(), 'flynn-watchdog-'));
  const host = {
    cluster,
    hostId: 'h1',
    externalAddress: '127.0.0.1',
    gateway: network.gateway,
    networkName: network.name,
  };
  const started = await Promise.all(
    ['one', 'two', 'other'].map(async (name) => {
      const command = ['sh', '-c', "trap '' TERM; sleep 1000 & wait"];
      const id = await engine.create(containerSpecOf(jobOf(name, { command }), testImage, host));
      return (await engine.start(id)).id;
    }),
  );
  const [one = '', two = '', other = ''] = started;
  const stateOf = async (id: string) => (await engine.inspect(id)).state;
  const ownerOf = async () => (await readFile(join(dir, 'watchdog.pid'), 'utf8')).trim();
  const log = silentLogger();
  try {
    const first = new Watchdog({ dir, log });
    await first.guard(undefined, [one]);
    assert.deepEqual(await readdir(dir), [], 'nothing runs as long as there is no deadline');
    const at = performance.now() + 5_000;
    await Promise.all([[one], [two], [one, two]].map((ids) => first.guard(at, ids)));
    assert.deepEqual((await readFile(join(dir, 'fence'), 'utf8')).split('\n').slice(1, -1), [one, two].toSorted());
    // Far enough for a machine that stands still, and for the second watchdog to come.
    while (performance.now() < at + 2_000) {
      await first.guard(performance.now() + 600_000, [one, two]);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    assert.deepEqual(await Promise.all([stateOf(one), stateOf(two)]), ['running', 'running']);
    const firstOwner = await ownerOf();

    // Another agent takes over: its watchdog takes the first one's place.
    const second = new Watchdog({ dir, log });
    second.resume();
    await waitFor(async () => (await ownerOf()) !== firstOwner, { what: 'the second watchdog', deadlineMs: 30_000 });
    // No sooner than within one sleep of it: it has just read a deadline further away.
    const deadlineMs = performance.now() + 3_500;
    await second.guard(deadlineMs, [one]);
    // Within a moment, where the machine does not stand still: ten minutes before that further one.
    const killed = await waitFor(async () => (await stateOf(one)) === 'exited' && performance.now(), {
      what: 'the end of the container',
      deadlineMs: 60_000,
      intervalMs: 10,
    });
    assert.ok(killed > deadlineMs, 'not before its time');
    assert.equal((await engine.inspect(one)).exitCode, 137);
    assert.deepEqual(await Promise.all([stateOf(two), stateOf(other)]), ['running', 'running']);

    // Without a deadline nothing is killed.
    await second.guard(undefined, [two]);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    assert.equal(await stateOf(two), 'running');
  } finally {
    await rm(dir, { recursive: true, force: true });
    await fixture.close();
  }
});
