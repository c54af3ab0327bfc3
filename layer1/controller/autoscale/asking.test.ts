/** In one look nobody is asked twice, and one that hangs is waited for once. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Routers } from '@flynn/discovery/routers';
import { handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { routerStats } from '../routes/stats.ts';
import { startTestController } from '../testing.ts';
import { Asking } from './asking.ts';

test('a router that did not answer for one app is not asked for the next', async (t) => {
  const controller = await startTestController({ hosts: 1 });
  t.after(() => controller[Symbol.asyncDispose]());
  const instances: Awaited<ReturnType<typeof start>>[] = [];
  const routers = new Routers({ instances: async () => instances, key: 'test-cluster-key', log: silentLogger() });
  t.after(() => routers[Symbol.asyncDispose]());
  const asked: string[] = [];
  const start = async (name: string, answer: () => never[]) => {
    const stats = handle(routerStats.all, async ({ query }) => {
      asked.push(`${name} of ${query.app}`);
      return answer();
    });
    const options = { key: 'test-cluster-key', host: '127.0.0.1', port: 0, log: silentLogger() };
    const server = await startServer({ name, handlers: [stats], ...options });
    t.after(() => server.close());
    return { id: name, service: 'router', address: `127.0.0.1:${server.port}`, attributes: {}, createdRevision: 1 };
  };
  const well = await start('well', () => []);
  const away = await start('away', () => {
    throw new Error('it is away');
  });
  instances.push(well, away);
  const asking = new Asking({ ...controller.deps, routers });
  const { signal } = new AbortController();
  const ask = (id: string, type: string) =>
    asking.routers({ app: { id, spec: { name: id } }, process: { ports: [] }, setting: { spec: { type } } }, signal);
  for (const [id, type] of [
    ['a', 'web'],
    ['a', 'api-web'],
    ['b', 'web'],
  ] as const) {
    const { counts, silent } = await ask(id, type);
    assert.deepEqual(
      [counts, [...silent.keys()]],
      [new Map([[well.address, new Map()]]), [`the router at ${away.address}`]],
    );
  }
  assert.deepEqual(asked.toSorted(), ['away of a', 'well of a', 'well of b']);
});
