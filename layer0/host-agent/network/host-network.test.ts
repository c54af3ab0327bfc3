import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { HostNetwork, usualCheckMs } from './host-network.ts';
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
  assert.deepEqual(network.shown, { hosts: [] });
  network.follow(() => ({ leases: [], endpoints: [], word: 'unreadable' }));
  const ending = new AbortController();
  const running = network.run(ending.signal);
  try {
    await waitFor(() => network.problems.length > 0, { what: 'a check to fail', deadlineMs: 60_000, intervalMs: 5 });
    assert.deepEqual(network.shown, { isUnreadable: true, hosts: [] });
  } finally {
    ending.abort();
    await running;
  }
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

test('how often it looks is what its README says, and what follows for whoever meddles', async () => {
  const readme = await readFile(new URL('README.md', import.meta.url), 'utf8');
  const seconds = usualCheckMs / 1_000;
  assert.ok(readme.includes(`does both every ${seconds} s\n`));
  // And what reading and mending take.
  assert.ok(readme.includes(`is back within ${seconds + 2} s`));
});
