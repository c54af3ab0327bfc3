/** May what is asked for be done on this host? Of what it is already. Pure. */
import { siteSchema } from '@flynn/host-agent/network/lease';
import { FlynnError } from '@flynn/kit/errors';
import { type DomainChange, checkDrop } from '../domain/domain.ts';
import { commands } from '../origin.ts';
import type { Rotation } from '../rotation/rotation.ts';
import type { Cluster } from '../settings.ts';

/** What a host is to the others stays: where they reach it, and where its containers are, hangs on it. */
export function checkSite(site: string, stored: Cluster | undefined): void {
  if (!siteSchema.safeParse(site).success) {
    throw new FlynnError(
      'invalid',
      `--behind-nat takes a name for the private network that this machine is in, of lower-case letters, digits and dashes, such as home; not ${JSON.stringify(site)}`,
    );
  }
  if (stored === undefined || stored.site === site) return;
  const is =
    stored.site === undefined
      ? `is a host of the cluster ${stored.name}, which the others reach at ${stored.address}`
      : `joined the cluster ${stored.name} behind the NAT of ${stored.site}`;
  throw new FlynnError(
    'conflict',
    `this machine ${is}: take it out with ${commands.down}, and join with --behind-nat ${site}. Nothing was changed`,
  );
}

const rotated: Readonly<Record<Rotation, readonly [what: string, command: string]>> = {
  tokens: ['tokens are', commands.rotateTokens],
  'root key': ['the root key is', commands.rotateRootKey],
  'sealing key': ['the sealing key is', commands.rotateSealingKey],
  authority: ['the authority is', commands.rotateAuthority],
};

/** `conflict` but where the platform is: that host alone gives its parts their tokens and keys. */
export function checkRotation(rotation: Rotation, stored: Cluster | undefined): void {
  if (stored?.hasPlatform === true) return;
  const [what, command] = rotated[rotation];
  throw notKeptHere(stored, `${what} made anew on the host that keeps it, by ${command}`);
}

/** `conflict` but where the platform is, as for keys; and for what cannot be dropped. */
export function checkDomain(change: DomainChange, stored: Cluster | undefined): void {
  if (stored?.hasPlatform !== true) {
    throw notKeptHere(stored, 'the domain is changed on the host that keeps it');
  }
  if ('drop' in change) checkDrop(stored, change.drop);
}

/** `not_found` where this is no host. */
export function checkTakeOver(stored: Cluster | undefined): void {
  if (stored !== undefined) return;
  throw new FlynnError('not_found', 'there is no cluster here yet: a host of one takes over. Nothing was changed');
}

function notKeptHere(stored: Cluster | undefined, how: string): FlynnError {
  const where =
    stored === undefined
      ? 'there is no cluster here yet'
      : `another host keeps the platform of the cluster ${stored.name} (flynn-host status says which; where it is gone for good, or said to be this one: ${commands.takeOver} here)`;
  return new FlynnError('conflict', `${where}: ${how}. Nothing was changed`);
}
