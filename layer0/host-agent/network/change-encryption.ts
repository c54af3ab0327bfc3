/**
 * Encryption between hosts from one end to the other, step by step: each is taken once all hosts have carried out the one
 * before.
 */
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import type { ReachedHost, ShownNetwork } from './api.ts';
import { type Encryption, type EncryptionWord, encryptionSchema, isEncrypted } from './encryption.ts';

export type EncryptionPorts = Readonly<{
  /** All hosts of the cluster. */
  hosts: () => Promise<readonly Readonly<{ id: string; isAway: boolean }>[]>;
  /** As the host has it. */
  show: (hostId: string) => Promise<ShownNetwork>;
  /** What it is to be for the whole cluster. */
  set: (encryption: Encryption) => Promise<void>;
  /** What it is to be. */
  read: () => Promise<EncryptionWord>;
  report: (line: string) => void;
}>;

type Limits = Readonly<{ signal: AbortSignal; deadlineMs?: number; intervalMs?: number }>;

/** A step that not all hosts have carried out by then is given up. */
export const stepMs = 90_000;
const lookMs = 500;

/** What a person types, by what there is to end. */
export const endings = {
  unreadable: 'flynn-host network encrypt writes it anew and has all encrypted, flynn-host network decrypt ends that',
  halfway: 'flynn-host network encrypt goes on to the end, flynn-host network decrypt goes back',
} as const;

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
 * Changes nothing where it is so already. A change that was broken off goes on from the step it is at, in either direction; a word
 * that cannot be read is written anew first. `conflict` while a host is away, before anything is changed. `unavailable` where hosts
 * do not hear each other: then it is off, and the error names them. `timeout` where hosts do not follow.
 */
export async function changeEncryption(
  to: 'on' | 'off',
  ports: EncryptionPorts,
  { signal, deadlineMs = stepMs, intervalMs = lookMs }: Limits,
): Promise<void> {
  const limits = { signal, deadlineMs, intervalMs };
  const away = (await ports.hosts()).filter(({ isAway }) => isAway).map(({ id }) => id);
  if (away.length > 0) {
    throw new FlynnError(
      'conflict',
      `${away.join(', ')} ${away.length === 1 ? 'is' : 'are'} away, and would be cut off or not know of it: bring back, or take out (flynn host remove), and then do this again. Nothing was changed`,
    );
  }
  const word = await ports.read();
  const before = word === 'unreadable' ? await writeAnew(to, ports, limits) : word;
  // Nobody may have waited for the last step.
  if (before === to) return await untilFollowed(to, ports, limits);
  for (const step of stepsOf(before, to)) {
    await ports.set(step);
    // On the way out nothing depends on who hears whom.
    if (step === 'ready' && to === 'on') await untilAllHear(before, ports, limits);
    else await untilFollowed(step, ports, limits);
    ports.report((to === 'on' ? told : toldBack)[step]);
  }
}

async function writeAnew(to: 'on' | 'off', ports: EncryptionPorts, limits: Required<Limits>): Promise<Encryption> {
  const kept = keptBy(await Promise.all((await ports.hosts()).map(({ id }) => ports.show(id))), to);
  await ports.set(kept);
  await untilFollowed(kept, ports, limits);
  ports.report(`its word in the store could not be read, and is "${kept}" again, which the hosts kept to`);
  return kept;
}

/**
 * What the hosts keep to, which is what they knew last: of those that have carried it out, and cannot read the word. Should not
 * all say the same, the one that is furthest from encrypted: whoever just came and knew nothing has taken it for on, and is alone
 * with that. But on the way to `on` nothing is sent in clear for the sake of a few: rather these lose packets for a moment.
 */
function keptBy(shown: readonly ShownNetwork[], to: 'on' | 'off'): Encryption {
  const kept = new Set(shown.map((one) => (one.isUnreadable === true ? one.encryption : undefined)));
  const least = encryptionSchema.options.find((one) => kept.has(one)) ?? 'on';
  return to === 'on' && kept.size > 1 && !isEncrypted(least) ? 'sent' : least;
}

async function untilFollowed(step: Encryption, ports: EncryptionPorts, limits: Required<Limits>): Promise<void> {
  try {
    await untilCarriedOut({ step, mustHear: false }, ports, limits);
  } catch (error) {
    if (!hasCode(error, 'timeout')) throw error;
    const goOn = 'the same command goes on from there, and its opposite goes back';
    throw new FlynnError('timeout', `${messageOf(error)}. Encryption is at "${step}" now: ${goOn}`, { cause: error });
  }
}

/** What does not come to it is ended: nothing is encrypted yet. */
async function untilAllHear(before: Encryption, ports: EncryptionPorts, limits: Required<Limits>): Promise<void> {
  try {
    await untilCarriedOut({ step: 'ready', mustHear: true }, ports, limits);
  } catch (error) {
    if (!hasCode(error, 'timeout')) throw error;
    await ports.set('off');
    const is = before === 'off' ? 'It is as it was before' : 'Encryption is off now';
    throw new FlynnError('unavailable', `${messageOf(error)}. ${is}`, { cause: error });
  }
}

/** What was begun, or broken off at a step, goes on with that step: nobody may have waited for it. */
function stepsOf(before: Encryption, to: 'on' | 'off'): readonly Encryption[] {
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
    const { encryption, problems = [], hosts } = await show(id);
    if (encryption !== step) return [[`${id} has not followed yet`, ...problems].join(': ')];
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
