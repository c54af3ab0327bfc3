/** Where a runner's variables come from: the controller, which holds the answer back until they change. */
import { runnerEnv } from '@flynn/controller/runner-env/api';
import { pause } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import type { EnvSource } from './env-watch.ts';
import type { Identity } from './registration.ts';

const answerMs = 40_000;
const nothing = { version: 'none', env: {} };
const againMs = 30_000;

export function controllerEnv(controller: HttpClient, { id, token }: Pick<Identity, 'id' | 'token'>): EnvSource {
  return async (known, signal) => {
    const body = { token, ...(known === undefined ? {} : { known }) };
    try {
      return await controller.call(runnerEnv.watch, { params: { runner: id }, body }, { signal, timeoutMs: answerMs });
    } catch (error) {
      // A controller of a version before has no variables for runners: a runner is updated on its own.
      if (!hasCode(error, 'not_found')) throw error;
      if (known === nothing.version) await pause(againMs, signal);
      return nothing;
    }
  };
}
