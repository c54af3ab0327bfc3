/** May the cluster be moved to a version, or does it stand on what that does not know? Pure. */
import type { EncryptionWord } from '@flynn/host-agent/network/encryption';
import { FlynnError } from '@flynn/kit/errors';
import { commands } from '../origin.ts';

/** What this version knows and versions before it did not, where leaving it behind would cut hosts off. Names stay for ever. */
export const features = ['wireguard'] as const;

export type Standing = Readonly<{
  /** What is so between hosts, as the store says. */
  encryption: EncryptionWord;
  /** Hosts behind NAT, by their ids. */
  behindNat: readonly string[];
}>;

/** `conflict`, with what to do first. */
export function checkKnown(
  { version, features: known }: Readonly<{ version: string; features: readonly string[] }>,
  { encryption, behindNat }: Standing,
): void {
  if (known.includes('wireguard')) return;
  const obstacles: string[] = [];
  if (encryption !== 'off') {
    obstacles.push('the cluster is encrypted between its hosts, or may be: flynn-host network decrypt');
  }
  if (behindNat.length > 0) {
    const [are, each] = behindNat.length === 1 ? ['is', 'it'] : ['are', 'each of them'];
    obstacles.push(
      `${behindNat.join(', ')} ${are} reached through nothing else, behind NAT: take ${each} out first, by ${commands.down} there`,
    );
  }
  if (obstacles.length === 0) return;
  const lines = obstacles.map((line) => `  ${line}\n`).join('');
  throw new FlynnError(
    'conflict',
    `version ${version} does not know WireGuard, and hosts would be cut off from each other:\n${lines}Nothing was changed. Do so, and run the same command again`,
  );
}
