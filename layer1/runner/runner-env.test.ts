/** Variables that are set while a runner runs: it is not started anew, and what begins then has them. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { generic } from '@flynn/controller/generic/api';
import { operations } from '@flynn/controller/operations/api';
import { waitFor } from '@flynn/kit/retry';
import { behave, outcome, push, startRunner, startWorld, type World } from './runner-fixture.ts';

const params = { group: 'flynn', version: 'v1', kind: 'RunnerEnv', name: 'all' };
const set = ({ controller }: World, env: Record<string, string>) =>
  controller.client.call(generic.put, { params, body: { spec: { env } } });

/** The variables that the build of the operation was started with. */
async function envOfBuild({ controller }: World, id = ''): Promise<Record<string, string> | undefined> {
  const { entries } = await controller.store.list('/flynn/cell/templates/');
  const found = entries.find(({ key }) => key.includes(`-build-${id}/`));
  return found === undefined ? undefined : (JSON.parse(found.value) as { env: Record<string, string> }).env;
}

test('the next build has what was set, and no more what was unset', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'run' } });
  await using _runner = startRunner(world);
  const seen: (string | undefined)[] = [];
  const steps: (Record<string, string> | undefined)[] = [undefined, { EXTRA: '1' }, { EXTRA: '2' }, {}];
  for (const given of steps) {
    if (given !== undefined) await set(world, given);
    const [build] = await push(world);
    const { client } = world.controller;
    const env = await waitFor(() => envOfBuild(world, build?.id), {
      what: 'the build to be started',
      deadlineMs: 60_000,
    });
    seen.push(env['EXTRA']);
    await client.call(operations.cancel, { params: { operation: build?.id ?? '' } });
    await outcome(world, build?.id);
  }
  assert.deepEqual(seen, [undefined, '1', '2', undefined]);
});

test('a registry that was named plain just now is asked without TLS', { timeout: 120_000 }, async (t) => {
  const asked: string[] = [];
  const registry = createServer((request, response) => {
    asked.push(request.url ?? '');
    response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => registry.listen(0, '127.0.0.1', resolve));
  t.after(() => registry.close());
  const host = `127.0.0.1:${(registry.address() as AddressInfo).port}`;
  await using world = await startWorld();
  behave(world, { build: { is: 'exit', code: 1 } });
  await using _runner = startRunner(world, { env: { FLYNN_PLAIN_REGISTRIES: 'other:5000' } });
  const [before] = await push(world);
  await outcome(world, before?.id);
  await set(world, { FLYNN_PLAIN_REGISTRIES: `other:5000,${host}` });
  const [operation] = await world.controller.client.call(operations.create, {
    params: { app: 'shop' },
    body: { operations: [{ kind: 'build', input: { imageRef: `${host}/team/app:1` } }] },
  });
  const { state } = (await outcome(world, operation?.id)).operation;
  assert.equal(state, 'failed');
  assert.deepEqual([...new Set(asked)], ['/v2/team/app/manifests/1']);
});
