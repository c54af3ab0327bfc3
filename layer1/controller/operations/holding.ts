/** Does a runner hold an operation? */
import type { Deps } from '../deps.ts';
import { operationType } from '../resources.ts';
import type { OperationResource } from '../resources.ts';

type Held = Readonly<{ runnerId?: string | undefined; appId?: string | undefined }>;

/** Of that app, or without one any; by that runner, or without one any. */
export function isHeldBy({ runnerId, appId }: Held): (operation: OperationResource) => boolean {
  return ({ spec, status: { runnerId: holder, state } }) =>
    (runnerId === undefined || holder === runnerId) &&
    (state === 'waiting' || state === 'running') &&
    (appId === undefined || spec.appId === appId);
}

/** Of that app, or without one any. The queue may be a moment behind another controller's: before it says no the store is asked. */
export async function holdsOperation(
  { queue, resources }: Pick<Deps, 'queue' | 'resources'>,
  { runnerId, appId }: { runnerId: string; appId?: string | undefined },
  signal: AbortSignal,
): Promise<boolean> {
  for (const id of queue.heldBy(runnerId)) {
    const operation = queue.get(id);
    if (operation !== undefined && (appId === undefined || operation.spec.appId === appId)) return true;
  }
  return (await resources.list(operationType, { signal, where: isHeldBy({ runnerId, appId }) })).length > 0;
}
