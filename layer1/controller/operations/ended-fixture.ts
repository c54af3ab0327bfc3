/** An operation that has ended, for tests. */
import type { OperationResource } from '../resources.ts';

/** It ended at this second. */
export function endedOperation(id: string, second: number, appId = 'a'): OperationResource {
  const at = new Date(second * 1_000).toISOString();
  return {
    type: 'operation',
    id,
    uid: id,
    revision: 0,
    generation: 1,
    createdAt: at,
    updatedAt: at,
    labels: {},
    finalizers: [],
    waitingFor: {},
    conditions: [],
    spec: { appId, kind: 'build', pushId: `push of ${id}`, input: {} },
    status: { state: 'complete', output: {}, endedAt: at },
  };
}
