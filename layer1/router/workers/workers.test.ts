import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { sumOfStatus } from './status.ts';
import type { Patience } from './standstill.ts';
import { Workers } from './workers.ts';

const soon = { deadlineMs: 60_000, intervalMs: 10 };
const fixture = new URL('./fixture.ts', import.meta.url).pathname;

async function start(
  t: TestContext,
  count: number,
  options: {
    onLast?: (counts: unknown) => void;
    isBroken?: (index: number) => boolean;
    onFork?: () => void;
    patience?: Patience;
  } = {},
): Promise<{ workers: Workers; port: number }> {
  const port = await freePort();
  const { isBroken, onFork, ...heard } = options;
  const workers = await Workers.start({
    count,
    spawn(index) {
      onFork?.();
      return fork(fixture, [String(port), isBroken?.(index) === true ? 'broken' : '']);
    },
    ...heard,
    startDeadlineMs: 60_000,
    log: silentLogger(),
  });
  t.after(() => workers.stop({ deadlineMs: 30_000 }));
  return { workers, port };
}

/** The process that answered, or what went wrong. */
async function ask(port: number, options: { path?: string; agent?: Agent } = {}): Promise<string> {
  const asked = request({ host: '127.0.0.1', port, path: options.path ?? '/', agent: options.agent ?? new Agent() });
  asked.end();
  const [response]: IncomingMessage[] = await once(asked, 'response');
  return response === undefined ? '' : text(response);
}

describe('workers', () => {
  test('share a port and answer what the parent asks', async (t) => {
    const { workers, port } = await start(t, 2);
    const pids = (await workers.ask('pid')).map(String);
    assert.deepEqual(pids.toSorted(), workers.pids.map(String).toSorted());
    assert.equal(new Set(pids).size, 2);
    const seen = new Set<string>();
    await waitFor(async () => seen.add(await ask(port)).size === 2, { what: 'both to answer', ...soon });
    assert.deepEqual(await workers.ask('echo', { a: [1] }), [{ a: [1] }, { a: [1] }]);
    assert.deepEqual(await workers.ask('fail'), []);
    assert.deepEqual(await workers.ask('unheard of'), []);
  });

  test('one that is killed under load costs its own connections only, and comes back', async (t) => {
    const { workers, port } = await start(t, 2);
    const before = workers.pids;
    const [victim = 0] = before;
    const over = new AbortController();
    const lost: string[] = [];
    let answered = 0;
    const client = async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      // Whose connection this is.
      let mine = await ask(port, { agent });
      while (!over.signal.aborted) {
        try {
          mine = await ask(port, { agent });
          answered += 1;
        } catch {
          lost.push(mine);
        }
      }
      agent.destroy();
    };
    const clients = Array.from({ length: 20 }, client);
    await waitFor(() => answered > 200, { what: 'some load', ...soon });
    process.kill(victim, 'SIGKILL');
    await waitFor(() => workers.pids.length === 2 && !workers.pids.includes(victim), {
      what: 'another worker',
      ...soon,
    });
    const then = answered;
    await waitFor(() => answered > then + 200, { what: 'more load', ...soon });
    over.abort();
    await Promise.all(clients);
    // A connection in the dead one's queue was not told whose it is.
    assert.ok(lost.filter((pid) => pid !== String(victim)).length <= 20, lost.join(' '));
    assert.ok(lost.length <= 40, lost.join(' '));
    assert.equal(workers.pids[1], before[1]);
  });

  test('one that stands still is killed, and another takes its place; the others keep their connections', async (t) => {
    const { workers, port } = await start(t, 2, { patience: { lookEveryMs: 50, limitMs: 1_000 } });
    const [victim = 0, other = 0] = workers.pids;
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    t.after(() => agent.destroy());
    await waitFor(
      async () => {
        const isOther = (await ask(port, { agent })) === String(other);
        if (!isOther) agent.destroy();
        return isOther;
      },
      { what: 'a connection to the other', ...soon },
    );
    void workers.ask('spin', victim).catch(() => undefined);
    await waitFor(() => workers.takingPids.length === 2 && !workers.pids.includes(victim), {
      what: 'another worker',
      ...soon,
    });
    assert.equal(workers.pids[1], other);
    assert.equal(await ask(port, { agent }), String(other));
    assert.equal((await workers.ask('pid')).length, 2);
  });

  test('answer what is under way before they end', async (t) => {
    const { workers, port } = await start(t, 2);
    const slow = Array.from({ length: 10 }, () => ask(port, { path: '/slow' }));
    const busy = async () => (await workers.ask('busy')).reduce<number>((sum, count) => sum + Number(count), 0);
    await waitFor(async () => (await busy()) === 10, { what: 'all requests to be under way', ...soon });
    await workers.stop({ deadlineMs: 60_000 });
    assert.equal((await Promise.all(slow)).length, 10);
    assert.deepEqual(workers.pids, []);
  });

  test('one more comes and the last one goes; each time all know how many there are', async (t) => {
    const last: unknown[] = [];
    const { workers, port } = await start(t, 1, { onLast: (counts) => last.push(counts) });
    const [first = 0] = workers.pids;
    await workers.grow();
    assert.equal(workers.count, 2);
    assert.deepEqual(await workers.ask('count-told'), [2, 2]);
    const [, second = 0] = workers.pids;
    const seen = new Set<string>();
    await waitFor(async () => seen.add(await ask(port)).size === 2, { what: 'both to answer', ...soon });
    assert.equal(await workers.shrink(), 'left');
    assert.equal(workers.count, 1);
    assert.deepEqual(workers.takingPids, [first]);
    await waitFor(() => workers.pids.length === 1, { what: 'the second to end', ...soon });
    await waitFor(() => last.length === 1, { what: 'what it counted', ...soon });
    assert.deepEqual(last, [{ pid: second }]);
    assert.deepEqual(await workers.ask('count-told'), [1]);
    await assert.rejects(workers.shrink(), /the only worker/);
  });

  test('one that has something under way does not go, and one that dies is started again all the same', async (t) => {
    const { workers, port } = await start(t, 2);
    const slow = Promise.allSettled(Array.from({ length: 20 }, () => ask(port, { path: '/slow' })));
    const busy = async () => (await workers.ask('busy')).reduce<number>((sum, count) => sum + Number(count), 0);
    await waitFor(async () => (await busy()) === 20, { what: 'all requests to be under way', ...soon });
    assert.equal(await workers.shrink(), 'busy');
    assert.equal(workers.count, 2);
    const [, second = 0] = workers.takingPids;
    process.kill(second, 'SIGKILL');
    await waitFor(() => workers.takingPids.length === 2 && !workers.takingPids.includes(second), {
      what: 'another worker',
      ...soon,
    });
    await workers.stop({ deadlineMs: 60_000 });
    const answered = (await slow).filter(({ status }) => status === 'fulfilled');
    assert.ok(answered.length > 0, 'those of the first are answered');
  });

  test('one that cannot be started leaves as many as before', async (t) => {
    const { workers } = await start(t, 1, { isBroken: (index) => index === 1 });
    await assert.rejects(workers.grow(), /worker 1 of the router ended before it served/);
    assert.equal(workers.count, 1);
    assert.equal(workers.pids.length, 1);
  });

  test('one that cannot be forked again is tried until it can', async (t) => {
    let forks = 0;
    const { workers } = await start(t, 1, {
      onFork() {
        forks += 1;
        if (forks === 2) throw new Error('ENOMEM');
      },
    });
    const [victim = 0] = workers.pids;
    process.kill(victim, 'SIGKILL');
    await waitFor(() => workers.pids.length === 1 && !workers.pids.includes(victim), {
      what: 'another worker',
      ...soon,
    });
    assert.equal(forks, 3);
  });

  test('that cannot start are an error, and leave nothing behind', async () => {
    const port = await freePort();
    const children: ReturnType<typeof fork>[] = [];
    const starting = Workers.start({
      count: 2,
      spawn: (index) => {
        const child = fork(fixture, [String(port), index === 1 ? 'broken' : '']);
        children.push(child);
        return child;
      },
      startDeadlineMs: 60_000,
      log: silentLogger(),
    });
    await assert.rejects(starting, /worker 1 of the router ended before it served/);
    assert.ok(children.every((child) => child.exitCode !== null || child.signalCode !== null));
  });

  test('end when their parent does', async (t) => {
    const port = await freePort();
    const child = fork(fixture, [String(port)]);
    t.after(() => child.kill('SIGKILL'));
    await once(child, 'message');
    child.disconnect();
    await once(child, 'exit');
    assert.equal(child.exitCode, 0);
  });
});

test('what workers count is one sum', () => {
  const counters = { requests: 3, upgrades: 0, tcpConnections: 1, dialFailures: 0, retries: 0, clientsGone: 0 };
  const backend = { service: 'web', address: '10.0.0.1:80', inFlight: 2, isLeaving: false, isEjected: false };
  const part = {
    hasRoutes: true,
    routes: { http: 1, tcp: 0 },
    backends: [backend],
    tls: { certificates: 2, expired: [], handshakes: 1, failures: 2, unknownNames: 3 },
    counters: { ...counters, refusals: { a: 1 } },
  };
  const other = {
    ...part,
    backends: [
      { ...backend, inFlight: 1, isLeaving: true, isEjected: true },
      { ...backend, address: '10.0.0.2:80' },
    ],
    counters: { ...counters, refusals: { a: 2, b: 1 } },
  };
  assert.deepEqual(sumOfStatus([part, other]), {
    ...part,
    tls: { certificates: 2, expired: [], handshakes: 2, failures: 4, unknownNames: 6 },
    backends: [
      { ...backend, inFlight: 3, isEjected: true },
      { ...backend, address: '10.0.0.2:80' },
    ],
    counters: { ...counters, requests: 6, tcpConnections: 2, refusals: { a: 3, b: 1 } },
  });
  assert.equal(sumOfStatus([part, { ...part, hasRoutes: false }]).hasRoutes, false);
});
