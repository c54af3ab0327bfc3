import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { HostNetwork, usualCheckMs } from './host-network.ts';
import { testSettings } from './settings-fixture.ts';

test('an agent that has carried out nothing yet says nothing of encryption, not that it is off', async () => {
  const network = new HostNetwork({
    settings: () => testSettings,
    file: '/nonexistent/network.json',
    jobs: () => [],
    run: async () => {
      throw new FlynnError('unavailable', 'ip says no');
    },
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

test('how often it looks is what its README says, and what follows for whoever meddles', async () => {
  const readme = await readFile(new URL('README.md', import.meta.url), 'utf8');
  const seconds = usualCheckMs / 1_000;
  assert.ok(readme.includes(`does both every ${seconds} s\n`));
  // And what reading and mending take.
  assert.ok(readme.includes(`is back within ${seconds + 2} s`));
});
