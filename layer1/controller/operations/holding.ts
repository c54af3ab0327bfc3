/** Does a runner hold an operation? */
import type { Deps } from '../deps.ts';
import { operationType } from '../resources.ts';
import type { OperationResource } from '../resources.ts';

/** Of that app, or without one any. The queue may be a moment behind another controller's: before it says no the store is asked. */
export async function holdsOperation(
  { queue, resources }: Pick<Deps, 'queue' | 'resources'>,
  { runnerId, appId }: { runnerId: string; appId?: string | undefined },
  signal: AbortSignal,
): Promise<boolean> {
  const isOfApp = ({ spec }: OperationResource): boolean => appId === undefined || spec.appId === appId;
  for (const id of queue.heldBy(runnerId)) {
    const operation = queue.get(id);
    if (operation !== undefined && isOfApp(operation)) return true;
  }
  const isHeld = (operation: OperationResource): boolean => {
    const { runnerId: holder, state } = operation.status;
    return holder === runnerId && (state === 'waiting' || state === 'running') && isOfApp(operation);
  };
  return (await resources.list(operationType, { signal, where: isHeld })).length > 0;
}
