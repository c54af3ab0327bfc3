/** The queue as it is deployed, on a real etcd: controllers that are killed while runners work. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { retry, waitFor } from '@flynn/kit/retry';
import { connectEtcd } from '@flynn/store/etcd';
import { freePort } from '@flynn/kit/testing-ports';
import { startEtcdMember } from '@flynn/store/etcd-member';
import { apps } from '../api.ts';
import { operations } from './api.ts';
import { createControllerClient } from '../client.ts';
import type { Operation } from '../model.ts';
import { historyPrefix } from './records.ts';
import { TestRunner } from './test-runner.ts';

const keys = { FLYNN_KEY: 'cluster', FLYNN_CONTROLLER_KEY: 'people' };
const total = 200;
const appCount = 20;

async function kill(child: ChildProcess): Promise<void> {
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}

/** Waits out a controller that is away; all that runners say may be said twice. */
function patiently<T>(what: string, work: () => Promise<T>): Promise<T> {
  return retry(work, { what, deadlineMs: 60_000, maxMs: 500 });
}

test(
  'controllers are killed while four runners work: every operation is begun once and completes',
  { timeout: 240_000 },
  async () => {
    const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
    await using etcd = await startEtcdMember(image === undefined ? {} : { image });
    await using store = connectEtcd({ endpoints: [etcd.endpoint], log: silentLogger() });
    const port = await freePort();
    const start = (role: 'web' | 'worker'): ChildProcess => {
      const env = { ...keys, FLYNN_ETCD_ENDPOINTS: etcd.endpoint, PORT: String(port) };
      return spawn(process.execPath, [join(import.meta.dirname, '../main.ts'), role], { env, stdio: 'ignore' });
    };
    let web = start('web');
    const worker = start('worker');
    await using client = createControllerClient({
      baseUrl: `http://127.0.0.1:${port}`,
      key: keys.FLYNN_CONTROLLER_KEY,
    });
    try {
      await patiently('the controller', () => client.call(apps.list, {}));
      const names = Array.from({ length: appCount }, (_, index) => `app${index}`);
      for (const name of names) await client.call(apps.create, { body: { name } });
      const body = {
        operations: Array.from({ length: total / appCount }, () => ({ kind: 'build' as const, input: {} })),
      };
      for (const app of names) await client.call(operations.create, { params: { app }, body });

      const begun: string[] = [];
      const done = new Set<string>();
      const allDone = new AbortController();
      const begin = async (runner: TestRunner, operation: Operation): Promise<void> => {
        try {
          await patiently('beginning', () => runner.acknowledge(operation));
        } catch (error) {
          // The controller that gave it away died before it said so: it goes to somebody else.
          if (hasCode(error, 'conflict')) return;
          throw error;
        }
        begun.push(operation.id);
        await patiently('ending', () => runner.report({ ended: [{ id: operation.id, state: 'complete' }] }));
        done.add(operation.id);
        if (done.size === total) allDone.abort();
      };
      const claim = async (runner: TestRunner): Promise<Operation[]> => {
        try {
          return await runner.assignments(3, { signal: allDone.signal });
        } catch (error) {
          if (allDone.signal.aborted) return [];
          throw error;
        }
      };
      const work = async (id: string): Promise<void> => {
        const runner = new TestRunner({ client, id, clusterKey: keys.FLYNN_KEY });
        await patiently('registering', () => runner.register());
        while (done.size < total) {
          const given = await patiently('claiming', () => claim(runner));
          await Promise.all(given.map((operation) => begin(runner, operation)));
        }
      };
      const working = Promise.all(['r1', 'r2', 'r3', 'r4'].map(work));
      for (const share of [0.2, 0.5]) {
        await waitFor(() => done.size >= total * share, {
          what: 'a share of the work',
          deadlineMs: 60_000,
          intervalMs: 5,
        });
        await kill(web);
        web = start('web');
      }
      await working;
      assert.equal(begun.length, total);
      assert.equal(new Set(begun).size, total);
      const left = await Promise.all(
        ['/flynn/resource/operation/', '/flynn/operation-lock/', historyPrefix].map((prefix) => store.list(prefix)),
      );
      assert.deepEqual(
        left.map(({ entries }) => entries.length),
        [0, 0, total],
      );
    } finally {
      await Promise.all([kill(web), kill(worker)]);
    }
  },
);
