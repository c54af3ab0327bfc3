/** Is a change of the root key, or of the tokens of the platform's parts, not through? */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import { eitherCommand } from '@flynn/kit/operator-commands';

/** What this controller takes: two of one kind while it is changed. */
type Taken = Readonly<{ rootKeys: readonly string[]; tokenRounds: readonly number[] }>;

export function rotationCheck(taken: Taken): Check {
  return { name: 'root-key', find: () => rotationFindings(taken) };
}

/** Pure. Told while `up` is at it, too: what is so matters however long it lasts. */
export function rotationFindings({ rootKeys, tokenRounds }: Taken): Found[] {
  const remedy = `${eitherCommand('up')} on the host that keeps the platform goes on with it, unless one is at it now`;
  if (rootKeys.length > 1) {
    return [
      {
        severity: 'warning',
        subject: 'root key',
        what: 'it is being made anew, and the former one is still good',
        why: 'whoever has the former one may do everything until it is through',
        remedy,
      },
    ];
  }
  if (tokenRounds.length === 1) return [];
  return [
    {
      severity: 'warning',
      subject: 'tokens of the platform',
      what: 'they are being made anew, and the former ones are still good',
      why: 'whoever has a former one may do what that part of the platform may until it is through',
      remedy,
    },
  ];
}
