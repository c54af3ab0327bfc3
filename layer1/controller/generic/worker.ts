/** What every worker runs beside its own reconcilers: those that kinds bring along, and the one that cascades deletions. */
import type { Controller } from '@flynn/resource/controller';
import { runController } from '@flynn/resource/controller';
import { runReaper } from '@flynn/resource/reaper';
import type { Deps } from '../deps.ts';

/** Runs until the signal aborts. One that fails is started again and stops no other. */
export async function runKinds(deps: Deps, signal: AbortSignal): Promise<void> {
  const { kinds, resources, store, log, now } = deps;
  const reaper: Controller = {
    name: 'reaper',
    placement: 'singleton',
    run: (context) => runReaper({ service: resources, registry: kinds.registry, store, now, ...context }),
  };
  const own = kinds.all().flatMap((kind) => kind.controllers.map((make) => make({ resources, deps, log })));
  await Promise.all([reaper, ...own].map((controller) => runController(controller, { store, signal, log })));
}
