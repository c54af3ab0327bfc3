/**
 * Encryption between hosts from one end to the other, step by step: each is taken once all hosts have carried out the one
 * before.
 */
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import type { ReachedHost, ShownNetwork } from './api.ts';
import { type Encryption, encryptionSchema } from './encryption.ts';

export type EncryptionPorts = Readonly<{
  /** All hosts of the cluster. */
  hosts: () => Promise<readonly Readonly<{ id: string; isAway: boolean }>[]>;
  /** As the host has it. */
  show: (hostId: string) => Promise<ShownNetwork>;
  /** What it is to be for the whole cluster. */
  set: (encryption: Encryption) => Promise<void>;
  /** What it is to be. */
  read: () => Promise<Encryption>;
  report: (line: string) => void;
}>;

type Limits = Readonly<{ signal: AbortSignal; deadlineMs?: number; intervalMs?: number }>;

const stepMs = 90_000;
const lookMs = 500;

const told: Readonly<Record<Encryption, string>> = {
  off: 'nothing is encrypted between hosts any more',
  ready: 'every host hears every other through WireGuard',
  sent: 'all that containers of different hosts send each other is encrypted',
  on: 'what comes in clear is not taken any more',
};
const toldBack: Readonly<Record<Encryption, string>> = {
  ...told,
  sent: 'what comes in clear is taken again',
  ready: 'it is sent in clear',
};

/**
 * Does nothing where it is so already. `conflict` while a host is away, before anything is changed. `unavailable` where hosts do
 * not hear each other: it is as before then, and the error names them.
 */
export async function changeEncryption(
  to: 'on' | 'off',
  ports: EncryptionPorts,
  { signal, deadlineMs = stepMs, intervalMs = lookMs }: Limits,
): Promise<void> {
  const away = (await ports.hosts()).filter(({ isAway }) => isAway).map(({ id }) => id);
  if (away.length > 0) {
    throw new FlynnError(
      'conflict',
      `${away.join(', ')} ${away.length === 1 ? 'is' : 'are'} away, and would be cut off or not know of it: bring back, or take out (flynn host remove), and then do this again. Nothing was changed`,
    );
  }
  const before = await ports.read();
  for (const step of stepsOf(before, to)) {
    await ports.set(step);
    try {
      // On the way out nothing depends on who hears whom.
      const mustHear = step === 'ready' && to === 'on';
      await untilCarriedOut({ step, mustHear }, ports, { signal, deadlineMs, intervalMs });
    } catch (error) {
      if (!hasCode(error, 'timeout')) throw error;
      if (step !== 'ready' || to === 'off') {
        const goOn = 'the same command goes on from there, and its opposite goes back';
        throw new FlynnError('timeout', `${messageOf(error)}. Encryption is at "${step}" now: ${goOn}`, {
          cause: error,
        });
      }
      await ports.set('off');
      throw new FlynnError('unavailable', `${messageOf(error)}. It is as it was before`, { cause: error });
    }
    ports.report((to === 'on' ? told : toldBack)[step]);
  }
}

/** What was begun, or broken off at a step, goes on with that step: nobody may have waited for it. */
function stepsOf(before: Encryption, to: 'on' | 'off'): readonly Encryption[] {
  if (before === to) return [];
  const order = encryptionSchema.options;
  const at = order.indexOf(before);
  return to === 'on' ? order.slice(Math.max(at, 1)) : order.slice(0, Math.min(at, order.length - 2) + 1).toReversed();
}

type Step = Readonly<{ step: Encryption; mustHear: boolean }>;

async function untilCarriedOut(step: Step, { hosts, show }: EncryptionPorts, limits: Required<Limits>): Promise<void> {
  await waitFor(
    async () => {
      const missing = (await Promise.all((await hosts()).map(({ id }) => missingOn(id, step, show)))).flat();
      if (missing.length > 0) throw new FlynnError('unavailable', missing.join('; '));
      return true;
    },
    { what: 'all hosts to follow', ...limits },
  );
}

async function missingOn(id: string, { step, mustHear }: Step, show: EncryptionPorts['show']): Promise<string[]> {
  try {
    const { encryption, hosts } = await show(id);
    if (encryption !== step) return [`${id} has not followed yet`];
    return mustHear ? hosts.flatMap((one) => silenceOf(id, one)) : [];
  } catch (error) {
    return [`${id}: ${messageOf(error)}`];
  }
}

function silenceOf(id: string, { hostId, way, why, through, isHeard }: ReachedHost): string[] {
  if (way === 'none') return [`${id} has no way to ${hostId}: ${why ?? 'it does not say why'}`];
  // What others pass on is heard by these.
  if (isHeard !== false || (through !== undefined && through !== hostId)) return [];
  return [`${id} does not hear ${hostId} through WireGuard: let UDP 1117 in on both`];
}
