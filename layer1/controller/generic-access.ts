/** Who asks the generic API? The server has checked the key; the key is the cluster's, whose holders are operators. */
import { operator } from '@flynn/resource/access';
import type { Asking } from '@flynn/resource/access';
import type { IncomingHttpHeaders } from 'node:http';

export function askingOf(_call: { headers: IncomingHttpHeaders }): Asking {
  return operator;
}
