/** Is encryption between hosts what somebody said, or was a change of it left half-way? Pure. */
import { endings, stepMs } from '../network/change-encryption.ts';
import { type EncryptionState, encryptionKey } from '../network/encryption.ts';
import type { Found } from './finding.ts';

const subject = 'the network between hosts';
/** A step that is taken is followed by the next one within less, or was given up. */
const changingMs = stepMs + 30_000;

/** Where nobody noted when the step was taken it may be now: told all the same. */
export function encryptionFindings({ word, since }: EncryptionState, nowMs: number): Found[] {
  if (word === 'unreadable') {
    return [
      {
        severity: 'warning',
        subject,
        what: `whether it is encrypted cannot be read from the store (${encryptionKey})`,
        why: 'hosts keep to what they knew last, and one that comes anew sends nothing in clear: it may be cut off from the others',
        remedy: endings.unreadable,
      },
    ];
  }
  if (word === 'off' || word === 'on') return [];
  if (since !== undefined && nowMs - Date.parse(since) < changingMs) return [];
  return [
    {
      severity: 'warning',
      subject,
      what: `a change of its encryption was left half-way, at "${word}"`,
      ...(since === undefined ? {} : { since }),
      why: halfway[word],
      remedy: `${since === undefined ? 'if nobody is at it now: ' : ''}${endings.halfway}`,
    },
  ];
}

const halfway = {
  ready:
    'what containers of different hosts send each other goes in clear, and all hosts keep a tunnel that nothing goes through',
  sent: 'what containers of different hosts send each other is encrypted, but what comes in clear, from whomever, is taken too',
} as const;
