/** A controller's runners and operations, shortly said. For tests. */
import type { HttpClient } from '@flynn/kit/http-client';
import { apps } from '../api.ts';
import { operations } from './api.ts';
import type { Operation } from '../model.ts';
import { OperationWatch } from './watch.ts';
import { TestRunner } from './test-runner.ts';
import type { TestRunnerOptions } from './test-runner.ts';
import type { TestController } from '../testing.ts';

export type Asked = Partial<
  Pick<Operation, 'id' | 'kind' | 'input' | 'dependsOn' | 'mayFail' | 'target' | 'singletonId' | 'expiresAt'>
> & { expiresInMs?: number };

export async function join(
  world: TestController,
  id: string,
  options: Partial<TestRunnerOptions> = {},
): Promise<TestRunner> {
  const runner = new TestRunner({ client: world.client, id, clusterKey: world.key, ...options });
  await runner.register();
  return runner;
}

export const newApp = (client: HttpClient, name: string) => client.call(apps.create, { body: { name } });

export function create(client: HttpClient, app: string, ...asked: Asked[]): Promise<Operation[]> {
  const body = { operations: asked.map((one) => Object.assign({ kind: 'build' as const, input: {} }, one)) };
  return client.call(operations.create, { params: { app }, body });
}

export const get = (client: HttpClient, operation: string) => client.call(operations.get, { params: { operation } });

/** Until what was written of operations is known here, as the watch tells it. */
export async function whenTold({ deps, store }: TestController): Promise<void> {
  await deps.operations.reached((await store.list('/flynn/resource/operation/')).revision);
}

/** A look of the worker's at all that is live, so long after its start, at a time of its own. */
export function watchAt(world: TestController): (atMs: number, nowMs?: number) => Promise<void> {
  let [steadyMs, nowMs] = [0, 0];
  const { operations: mirror, writer, log } = world.deps;
  const now = (): number => nowMs;
  const watch = new OperationWatch({ operations: mirror, writer, log, now, steadyNow: () => steadyMs });
  return async (atMs, clockMs = atMs) => {
    [steadyMs, nowMs] = [atMs, clockMs];
    await whenTold(world);
    await watch.sweep({ signal: AbortSignal.timeout(60_000) });
  };
}
