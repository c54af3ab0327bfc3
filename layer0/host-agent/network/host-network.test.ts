import assert from 'node:assert/strict';
import { mkdtempDisposable, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { HostNetwork, usualCheckMs } from './host-network.ts';
import type { Heard } from './host-network.ts';
import { recall, remember } from './memory.ts';
import type { Run } from './program.ts';
import { testSettings } from './settings-fixture.ts';

test('an agent that has carried out nothing yet says nothing of encryption, not that it is off', async () => {
  const network = new HostNetwork({
    settings: () => testSettings,
    file: '/nonexistent/network.json',
    jobs: () => [],
    run: async () => {
      throw new FlynnError('unavailable', 'ip says no');
    },
    runBeside: async () => '',
    log: silentLogger(),
  });
  assert.deepEqual({ ...network.shown }, { hosts: [] });
  network.follow(() => ({ leases: [], endpoints: [], word: 'unreadable' }));
  const ending = new AbortController();
  const running = network.run(ending.signal);
  try {
    await waitFor(() => network.problems.length > 0, { what: 'a check to fail', deadlineMs: 60_000, intervalMs: 5 });
    const { problems = [], ...shown } = network.shown;
    assert.deepEqual(shown, { isUnreadable: true, hosts: [] });
    // Its file has no folder: that may be told already, too.
    assert.ok(problems.includes('ip says no'), String(problems));
  } finally {
    ending.abort();
    await running;
  }
});

test('a host whose lease cannot be read is where it was when it last could be, and gone with its lease', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-network-'));
  const file = join(folder.path, 'network.json');
  const lease = (hostId: string, n: number) => ({
    hostId,
    address: `192.0.2.${n}`,
    subnet: `100.100.${n}.0/24`,
    joinedAt: n,
  });
  const [one, two, other] = [lease('one', 2), lease('two', 3), lease('three', 4)];
  // What a later version remembered of one host is no reason to know nothing of the others.
  await remember(file, { leases: [one, two], endpoints: [], encryption: 'off' });
  const text = await readFile(file, 'utf8');
  await writeFile(file, text.replace('{"leases":[', '{"leases":[{"hostId":"three","subnet":[]},'));
  assert.deepEqual(await recall(file), { leases: [one, two], endpoints: [], encryption: 'off' });

  const network = new HostNetwork({
    settings: () => testSettings,
    file,
    jobs: () => [],
    run: async () => {
      throw new FlynnError('unavailable', 'ip says no');
    },
    runBeside: async () => '',
    checkEveryMs: 5,
    log: silentLogger(),
  });
  const knownOnce = async (heard: Heard) => {
    const ending = new AbortController();
    let reads = 0;
    network.follow(() => {
      reads += 1;
      return heard;
    });
    const running = network.run(ending.signal);
    await waitFor(() => reads > 1, { what: 'it to be heard', deadlineMs: 60_000, intervalMs: 5 });
    ending.abort();
    await running;
    return (await recall(file))?.leases.map(({ hostId }) => hostId).toSorted();
  };
  const heard: Heard = { leases: [one], endpoints: [], word: 'off' };
  assert.deepEqual(await knownOnce({ ...heard, unread: new Set(['two', 'three']) }), ['one', 'two']);
  assert.deepEqual(await knownOnce({ ...heard, leases: [one, other], unread: new Set(['two']) }), [
    'one',
    'three',
    'two',
  ]);
  assert.deepEqual(await knownOnce({ ...heard, unread: new Set() }), ['one']);
});

/** Of a machine that answers nothing to a check; `beside` is asked what was left on the bridge. */
function looking(t: TestContext, options: { checkEveryMs: number; beside: Run }) {
  const it = { checks: 0, looks: 0 };
  const network = new HostNetwork({
    settings: () => testSettings,
    file: '/nonexistent/network.json',
    jobs: () => [],
    run: async () => {
      it.checks += 1;
      throw new FlynnError('unavailable', 'ip says no');
    },
    runBeside: async (...asked) => {
      it.looks += 1;
      return options.beside(...asked);
    },
    checkEveryMs: options.checkEveryMs,
    log: silentLogger(),
  });
  const ending = new AbortController();
  const running = network.run(ending.signal);
  t.after(async () => {
    ending.abort();
    await running;
  });
  const until = (what: string, test: () => boolean) => waitFor(test, { what, deadlineMs: 60_000, intervalMs: 5 });
  const checkAgain = async (): Promise<void> => {
    const { checks } = it;
    network.changed();
    await until('a check', () => it.checks > checks);
  };
  return Object.assign(it, { network, until, checkAgain });
}

test('nothing waits for a look at what was left on the bridge, and one that fails is not repeated with each change', async (t) => {
  const look = Promise.withResolvers<string>();
  const it = looking(t, { checkEveryMs: 600_000, beside: () => look.promise });
  await it.checkAgain();
  assert.equal(it.looks, 0);
  it.network.engineIsBack();
  await it.until('a look', () => it.looks === 1);
  await it.checkAgain();
  await it.checkAgain();
  look.reject(new FlynnError('unavailable', 'lsns says no'));
  await it.until('it to be known', () => it.network.problems.some((problem) => problem.endsWith('lsns says no')));
  await it.checkAgain();
  await it.checkAgain();
  assert.equal(it.looks, 1);
});

test('a look that failed is taken again until it is known what was left, and then when the engine is found again', async (t) => {
  let isKnown = false;
  const beside: Run = async () => {
    if (!isKnown) throw new FlynnError('unavailable', 'lsns says no');
    return '---\n---\n  1 4026531833 unassigned\n';
  };
  const it = looking(t, { checkEveryMs: 5, beside });
  it.network.engineIsBack();
  await it.until('three looks', () => it.looks >= 3);
  isKnown = true;
  await it.until('it to be well', () => it.network.problems.every((problem) => !problem.includes('lsns')));
  const { looks } = it;
  for (let count = 0; count < 3; count += 1) await it.checkAgain();
  assert.equal(it.looks, looks);
  it.network.engineIsBack();
  await it.until('a look', () => it.looks === looks + 1);
});

test('what cannot be put right is all told, to who waits for this host as well, and hides neither ways nor repairs', async () => {
  const near = { hostId: 'two', address: '192.0.2.3', subnet: '100.100.2.0/24', joinedAt: 2 };
  const network = new HostNetwork({
    settings: () => ({ ...testSettings, backend: 'direct' }),
    file: '/nonexistent/network.json',
    jobs: () => [],
    run: async ({ program, args, input = '' }) => {
      if (program === 'sh' && args.length === 2) return '[]\n'.repeat(8);
      if (input.startsWith('*raw')) throw new FlynnError('internal', 'there is no table raw');
      if (args[0] === 'route') throw new FlynnError('internal', 'RTNETLINK answers: File exists');
      return '';
    },
    runBeside: async () => '',
    checkEveryMs: 5,
    log: silentLogger(),
  });
  network.follow(() => ({ leases: [near], endpoints: [], word: 'ready' }));
  const ending = new AbortController();
  const running = network.run(ending.signal);
  try {
    await waitFor(() => network.repairs > 0, { what: 'a second check', deadlineMs: 60_000, intervalMs: 5 });
    const { encryption, problems = [], hosts } = network.shown;
    assert.equal(encryption, undefined);
    assert.match(problems.join(), /there is no table raw; RTNETLINK answers: File exists/);
    assert.deepEqual(
      hosts.map(({ hostId }) => hostId),
      ['two'],
    );
  } finally {
    ending.abort();
    await running;
  }
});

test('how often it looks is what its README says, and what follows for whoever meddles', async () => {
  const readme = await readFile(new URL('README.md', import.meta.url), 'utf8');
  const seconds = usualCheckMs / 1_000;
  assert.ok(readme.includes(`does both every ${seconds} s\n`));
  // And what reading and mending take.
  assert.ok(readme.includes(`is back within ${seconds + 2} s`));
});
