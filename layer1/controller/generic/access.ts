/** Who asks the generic API: whom the gate let in, by the role held on the whole cluster. */
import type { Caller } from '@flynn/kit/http-gate';
import type { Asking } from '@flynn/resource/access';
import { principalOf } from '../access/principal.ts';

export function askingOf(call: { caller?: Caller }): Asking {
  const { name, isAdmin, clusterLevel } = principalOf(call);
  return { name, isOperator: isAdmin, roleOn: () => (clusterLevel === 'none' ? undefined : clusterLevel) };
}
