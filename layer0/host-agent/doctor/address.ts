/**
 * Is the address that others know this host by one of this machine? It was when the host was set up, and a network may give
 * another.
 */
import { eitherCommand } from '@flynn/kit/operator-commands';
import { doubtfulAddresses, outerAddresses, ownAddresses } from '../hosts/own-addresses.ts';
import type { DeviceAddress } from '../hosts/own-addresses.ts';
import type { Found } from './finding.ts';

export type AddressFacts = Readonly<{
  /** Which others know it by. */
  address: string;
  isOwn: boolean;
  /** Which it may have instead. */
  others: readonly string[];
  /** Which it may have if people say so, as that of a VPN. */
  doubtful?: readonly DeviceAddress[];
}>;

/** `site`: of a host behind NAT, whose address is its gateway and so comes with the bridge, wherever it is. */
export async function readAddress(address: string, bridge: string, site: string | undefined): Promise<AddressFacts> {
  const isOwn = site !== undefined || (await ownAddresses()).has(address);
  return { address, isOwn, others: outerAddresses(bridge), doubtful: doubtfulAddresses(bridge) };
}

export function addressFindings(subject: string, { address, isOwn, others }: AddressFacts): Found[] {
  if (isOwn) return [];
  const [first = 'ADDRESS'] = others;
  const has = others.length === 0 ? 'it has none that leads out' : `it has ${others.join(', ')}`;
  return [
    {
      severity: 'critical',
      subject,
      what: `${address}, by which the others know it, is not an address of this machine: ${has}`,
      why: 'neither other hosts nor, where it has a member, this one reach its etcd, its agent and its containers',
      remedy: `give it ${address} again; or, where it has another one for good, and no other machine is this host (one of whose disk this one was made): FLYNN_ADDRESS=${first} ${eitherCommand('up')}, and docs/operating.md, "Another address", for where several have moved`,
    },
  ];
}
