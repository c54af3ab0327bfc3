/** Ctrl-C while a controller does not answer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { releases } from '@flynn/controller/api';
import { hosts } from '@flynn/controller/hosts/api';
import type { HostView } from '@flynn/controller/hosts/api';
import { routing } from '@flynn/controller/routes/api';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { startLoopback } from '@flynn/kit/loopback';
import { waitFor } from '@flynn/kit/retry';
import { saveClusters } from './clusters/clusters.ts';
import { runCli } from './program.ts';
import { Desk } from './testing.ts';

const draining: HostView = {
  id: 'host1',
  state: 'draining',
  claimed: { memoryBytes: 0, cpuMillis: 0 },
  jobs: 1,
  attributes: {},
  tags: {},
  drain: { startedAt: '2026-01-01T00:00:00Z', maxParallel: 1 },
};

/** A request that is never answered, and whether it came and went. */
function openSilence() {
  const seen = { asked: 0, gone: 0 };
  async function silence({ signal }: { signal: AbortSignal }): Promise<never> {
    seen.asked += 1;
    return new Promise((_, reject) => {
      signal.addEventListener('abort', () => {
        seen.gone += 1;
        reject(new Error('nobody waits for it'));
      });
    });
  }
  return { seen, silence };
}

/** How it ends that somebody presses Ctrl-C once it asks what is not answered, before any deadline of the request. */
async function interrupted(argv: string[], seen: { asked: number; gone: number }, handlers: Handler[]) {
  await using loopback = await startLoopback(handlers);
  await using desk = await Desk.open();
  await saveClusters(desk.configDirectory, {
    clusters: [{ name: 'x', controllerUrl: loopback.server.url, key: 'k', gitUrl: 'g', domain: 'd', httpPort: 80 }],
  });
  const io = desk.io();
  const ran = runCli(argv, io);
  await waitFor(() => seen.asked > 0, { what: 'the question', deadlineMs: 20_000, intervalMs: 10 });
  assert.equal(io.signal('SIGINT'), 1);
  await waitFor(() => seen.gone > 0, { what: 'the end of the question', deadlineMs: 20_000, intervalMs: 10 });
  return { code: await ran, stderr: io.stderr.text };
}

test('it ends `route stats -w`, `host drain --wait` and `log` also while the controller does not answer', async () => {
  const ofStats = openSilence();
  assert.deepEqual(
    await interrupted(['-a', 'shop', 'route', 'stats', '-w'], ofStats.seen, [
      handle(routing.list, async () => []),
      handle(routing.stats, ofStats.silence),
    ]),
    { code: 0, stderr: '' },
  );
  const ofDrain = openSilence();
  const drained = await interrupted(['host', 'drain', 'host1', '--wait'], ofDrain.seen, [
    handle(hosts.drain, async () => draining),
    handle(hosts.list, async () => [draining]),
    handle(hosts.get, ofDrain.silence),
  ]);
  assert.equal(drained.code, 130);
  assert.match(drained.stderr, /host1 goes on draining/);
  const ofLog = openSilence();
  const argv = ['-a', 'shop', 'log', '-f', '--release', 'v1'];
  assert.deepEqual(await interrupted(argv, ofLog.seen, [handle(releases.get, ofLog.silence)]), { code: 0, stderr: '' });
});
