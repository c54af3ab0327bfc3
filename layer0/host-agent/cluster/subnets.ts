/** Which part of the cluster's range does a host get? Leased once, kept until the host leaves. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { decodeJson } from '@flynn/store/codec';
import type { Entry, Store } from '@flynn/store/store';
import { firstOf } from '../network/addresses.ts';
import { leaseKey, leasePrefix, leaseSchema } from '../network/lease.ts';
import type { Lease } from '../network/lease.ts';

/** Whose subnet it is: two hosts that ask at once cannot both write this key. */
const subnetKey = (subnet: string): string => `/flynn/network/subnets/${subnet.replace('/', '-')}`;

const subnetBits = 24;
const maxAttempts = 20;

/** All subnets of a range, in their order: 256 of 100.100.0.0/16. */
export function* subnetsOf(range: string): Generator<string> {
  const [base = '', bits = '32'] = range.split('/');
  const first = numberOf(base);
  const size = 2 ** (32 - subnetBits);
  for (let at = 0; at < 2 ** (32 - Number(bits)); at += size) yield `${addressOf(first + at)}/${subnetBits}`;
}

function overlap(a: string, b: string): boolean {
  const [first, second] = [a, b].map((subnet) => {
    const [base = '', bits = '32'] = subnet.split('/');
    const from = numberOf(base);
    return { from, until: from + 2 ** (32 - Number(bits)) };
  });
  return first !== undefined && second !== undefined && first.from < second.until && second.from < first.until;
}

function numberOf(address: string): number {
  return address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
}

function addressOf(number: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(number / 2 ** shift) % 256).join('.');
}

export type LeaseRequest = {
  hostId: string;
  /** Where the others reach it; of a host with a `site` where those of that site do. */
  address: string;
  /** The private network behind NAT that it is in. */
  site?: string;
  range: string;
  /** The one it has to be, for the host that makes the cluster. */
  subnet?: string;
  now: number;
};

/**
 * Answers the host's lease: the one it has, else a new one. `conflict` when the id is that of a host at another address
 * (unless that host is the one asking to move: `mayMove`), `exhausted` when the range is full, `invalid` while a lease cannot be
 * read: its subnet or its address would be given a second time.
 */
export async function leaseSubnet(
  store: Store,
  request: LeaseRequest,
  options: { mayMove?: boolean; signal?: AbortSignal } = {},
): Promise<Lease> {
  const { hostId, range } = request;
  const limits = options.signal === undefined ? {} : { signal: options.signal };
  const key = leaseKey(hostId);
  for (let attempt = 1; attempt <= maxAttempts; attempt += 1) {
    const { entries } = await store.list(leasePrefix, limits);
    const known = entries.find((entry) => entry.key === key);
    if (known !== undefined) {
      const lease = decodeJson(leaseSchema, known.value, key);
      if (isAt(lease, request)) return lease;
      // What a host is to the others, one that all reach or one behind NAT, stays.
      if (options.mayMove !== true || lease.site !== request.site) {
        throw nameTaken(lease);
      }
      refuseTaken(entries, request);
      const moved: Lease = { ...lease, ...addressesOf(request, lease.subnet) };
      const { succeeded } = await store.transact(
        { compare: [{ key, modRevision: known.modRevision }], then: [{ put: key, value: JSON.stringify(moved) }] },
        limits,
      );
      if (succeeded) return moved;
      continue;
    }
    const leases = refuseTaken(entries, request);
    const taken = leases.map(({ subnet }) => subnet);
    if (request.subnet !== undefined && taken.includes(request.subnet)) {
      const whose = leases.find((lease) => lease.subnet === request.subnet)?.hostId;
      throw new FlynnError(
        'conflict',
        `this host was removed from the cluster, and its subnet ${request.subnet} is that of ${whose} by now: ${eitherCommand('down')} here, then join again`,
      );
    }
    // Nor one that a host is in: the others would look for it among containers.
    const places = [request.address, ...leases.map(({ address, localAddress }) => localAddress ?? address)];
    const inUse = [...taken, ...places];
    const subnet = request.subnet ?? subnetsOf(range).find((one) => !inUse.some((other) => overlap(one, other)));
    if (subnet === undefined) {
      throw new FlynnError(
        'exhausted',
        `the range ${range} has no subnet left for another host: remove hosts that are gone`,
      );
    }
    const lease: Lease = { hostId, ...addressesOf(request, subnet), subnet, joinedAt: request.now };
    const { succeeded } = await store.transact(
      {
        compare: [
          { key, createRevision: 0 },
          { key: subnetKey(subnet), createRevision: 0 },
        ],
        then: [
          { put: key, value: JSON.stringify(lease) },
          { put: subnetKey(subnet), value: JSON.stringify({ hostId }) },
        ],
      },
      limits,
    );
    if (succeeded) return lease;
    await dropStale(
      store,
      subnet,
      entries.map((entry) => entry.key),
      limits,
    );
  }
  throw new FlynnError('conflict', 'too many hosts ask for a subnet at the same time: try again');
}

/** For who asks to be a host that another machine is. */
export function nameTaken(lease: Lease): FlynnError {
  const { hostId } = lease;
  return new FlynnError(
    'conflict',
    `there is a host ${hostId} at ${placeOf(lease)} already: choose another FLYNN_HOST_ID, or if it is gone for good remove it first with: flynn host remove ${hostId}`,
  );
}

/** In a private network its router says who has which, and gives that of a host that is off to another. */
function isTaken(lease: Lease, request: LeaseRequest): boolean {
  return lease.site === undefined && lease.hostId !== request.hostId && isAt(lease, request);
}

type Place = Pick<LeaseRequest, 'address' | 'site'>;

/** Where nobody reaches its own address, the others come through the tunnel, to its gateway. */
function addressesOf({ address, site }: Place, subnet: string): Pick<Lease, 'address' | 'site' | 'localAddress'> {
  return site === undefined ? { address } : { address: firstOf(subnet), site, localAddress: address };
}

function isAt(lease: Lease, { address, site }: Place): boolean {
  return lease.site === site && (lease.localAddress ?? lease.address) === address;
}

function placeOf({ address, site, localAddress }: Lease): string {
  return site === undefined ? address : `${localAddress} behind the NAT of ${site}`;
}

/** Answers all leases. */
function refuseTaken(entries: readonly Entry[], request: LeaseRequest): Lease[] {
  const { address } = request;
  const leases = entries.map(({ key, value }) => decodeJson(leaseSchema, value, key));
  const same = leases.find((lease) => isTaken(lease, request));
  if (same === undefined) return leases;
  throw new FlynnError(
    'conflict',
    `${address} is the address of host ${same.hostId}: two hosts cannot share one; if that one is gone for good remove it first with: flynn host remove ${same.hostId}`,
  );
}

/** Of a host whose lease somebody deleted without its subnet's key; not of one that has taken the subnet since. */
async function dropStale(
  store: Store,
  subnet: string,
  leaseKeys: readonly string[],
  limits: { signal?: AbortSignal },
): Promise<void> {
  const key = subnetKey(subnet);
  const entry = await store.get(key, limits);
  if (entry === undefined) return;
  const { hostId } = JSON.parse(entry.value) as { hostId: string };
  if (leaseKeys.includes(leaseKey(hostId)) || (await store.get(leaseKey(hostId), limits)) !== undefined) return;
  await store.transact({ compare: [{ key, modRevision: entry.modRevision }], then: [{ delete: key }] }, limits);
}

/**
 * Gives the host's subnet back. Answers the lease it had. `invalid` for one that cannot be read. Forced, that goes all the same;
 * the key of its subnet follows once another host is to have that (`dropStale`).
 */
export async function releaseSubnet(
  store: Store,
  hostId: string,
  { isForced = false } = {},
): Promise<Lease | undefined> {
  const key = leaseKey(hostId);
  for (;;) {
    const entry = await store.get(key);
    if (entry === undefined) return undefined;
    const lease = isForced ? readable(entry) : decodeJson(leaseSchema, entry.value, key);
    const keys = lease === undefined ? [key] : [key, subnetKey(lease.subnet)];
    const { succeeded } = await store.transact({
      compare: [{ key, modRevision: entry.modRevision }],
      then: keys.map((one) => ({ delete: one })),
    });
    // Else it has moved meanwhile.
    if (succeeded) return lease;
  }
}

function readable({ key, value }: Entry): Lease | undefined {
  try {
    return decodeJson(leaseSchema, value, key);
  } catch (error) {
    if (!hasCode(error, 'invalid')) throw error;
    return undefined;
  }
}

/** What `releaseSubnet` gave back; of its tunnel the agent tells anew. `conflict` where another host has the subnet by now. */
export function leaseAgain(store: Store, lease: Lease, { signal }: { signal: AbortSignal }): Promise<Lease> {
  const { hostId, site, address, localAddress, subnet, joinedAt: now } = lease;
  const request = { hostId, address: localAddress ?? address, range: subnet, subnet, now };
  return leaseSubnet(store, { ...request, ...(site === undefined ? {} : { site }) }, { signal });
}
