/** Tells runners their variables, and builds those of the runner that carries them out. */
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { raceAbort, withDeadline } from '@flynn/kit/retry';
import type { Deps } from '../deps.ts';
import { findOperation } from '../operations/records.ts';
import { checkAdopted, checkRunner, noteSeen } from '../operations/runner-registry.ts';
import { runnerType } from '../resources.ts';
import type { RunnerResource } from '../resources.ts';
import { runnerEnv } from './api.ts';
import { envFor } from './env-for.ts';
import { runnerEnvType, versionOf } from './resource.ts';
import type { RunnerEnvSpec } from './resource.ts';
import { withoutRunnersOwn } from './settings.ts';

const waitMs = 25_000;

export function runnerEnvHandlers(deps: Deps): Handler[] {
  const { runnerEnvs, dispatch } = deps;
  return [
    handle(runnerEnv.watch, async ({ params, body, signal }) => {
      const adopted = async () =>
        checkAdopted(deps, await checkRunner(deps, params.runner, body.token, signal), signal);
      const runner = await adopted();
      await noteSeen(deps, runner, signal);
      if (body.known === undefined) return told(await listEnvs(deps, signal), runner);
      const limited = withDeadline(waitMs, AbortSignal.any([signal, dispatch.closing]));
      const current = () =>
        told(
          [...runnerEnvs.snapshot.entries.values()].map(({ value }) => value.spec),
          runner,
        );
      const changed = Promise.withResolvers<void>();
      // Subscribed before looking: what changes in between is not missed.
      const unsubscribe = runnerEnvs.onChange(() => {
        if (current().version !== body.known) changed.resolve();
      });
      try {
        if (current().version === body.known) await raceAbort(changed.promise, limited);
      } catch (error) {
        // Nothing changed for as long as one waits: what there is is told.
        if (!limited.aborted || signal.aborted) throw error;
      } finally {
        unsubscribe();
      }
      // It may have been turned away meanwhile.
      await adopted();
      return current();
    }),
  ];
}

/** What builds get that a runner with these labels carries out. */
export async function buildEnvOf(
  { resources }: Pick<Deps, 'resources'>,
  labels: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Record<string, string>> {
  return withoutRunnersOwn(envFor(await listEnvs({ resources }, signal), labels));
}

/** As the store has them by now. */
async function listEnvs({ resources }: Pick<Deps, 'resources'>, signal: AbortSignal): Promise<RunnerEnvSpec[]> {
  return (await resources.list(runnerEnvType, { signal })).map(({ spec }) => spec);
}

function told(all: readonly RunnerEnvSpec[], { spec }: RunnerResource) {
  const env = envFor(all, spec.labels);
  return { version: versionOf(env), env };
}

/** Of the runner that has the operation; nobody has it: as any runner would. */
export async function labelsOfRunner(
  { store, resources }: Pick<Deps, 'store' | 'resources'>,
  operationId: string,
  signal: AbortSignal,
): Promise<Readonly<Record<string, string>>> {
  const runnerId = (await findOperation(store, operationId, { signal }))?.status.runnerId;
  if (runnerId === undefined) return {};
  return (await resources.find(runnerType, runnerId, { signal }))?.spec.labels ?? {};
}
