/** What changed between two sets of instances of one service, and which of them are meant? */
import { FlynnError } from '@flynn/kit/errors';
import type { DiscoveryEvent, Instance } from './api.ts';
import { compareAge, leaderOf } from './election.ts';

export type InstanceSet = ReadonlyMap<string, Instance>;

export function oldestFirst(set: InstanceSet): readonly Instance[] {
  return Object.freeze([...set.values()].sort(compareAge));
}

export function isSameInstance(a: Instance | undefined, b: Instance | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return (
    a.id === b.id &&
    a.address === b.address &&
    a.createdRevision === b.createdRevision &&
    hasSameAttributes(a.attributes, b.attributes)
  );
}

export function hasSameAttributes(a: Record<string, string>, b: Record<string, string>): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name]);
}

/** The events that lead from one set to the other; none for what is the same in both. New ones come first: no gap between a down and its up. */
export function diffInstances(before: InstanceSet, after: InstanceSet): DiscoveryEvent[] {
  const events: DiscoveryEvent[] = [];
  for (const instance of oldestFirst(after)) {
    const old = before.get(instance.id);
    if (old === undefined) events.push({ event: 'up', instance });
    else if (!isSameInstance(old, instance)) events.push({ event: 'update', instance });
  }
  for (const instance of oldestFirst(before)) {
    if (!after.has(instance.id)) events.push({ event: 'down', instance });
  }
  const leader = leaderOf(after.values());
  if (!isSameInstance(leaderOf(before.values()), leader)) events.push({ event: 'leader', instance: leader });
  return events;
}

/** `zone=a,role=x` as attributes. Throws `invalid`. */
export function parseWhere(where: string): Record<string, string> {
  const attributes: Record<string, string> = {};
  for (const part of where.split(',')) {
    const at = part.indexOf('=');
    if (at < 1) {
      throw new FlynnError(
        'invalid',
        `"${part}" is not a condition: write attribute=value, several with commas between`,
      );
    }
    attributes[part.slice(0, at)] = part.slice(at + 1);
  }
  return attributes;
}

export function formatWhere(where: Record<string, string>): string {
  return Object.entries(where)
    .map(([name, value]) => `${name}=${value}`)
    .join(',');
}

export function hasAttributes(instance: Instance, where: Record<string, string>): boolean {
  return Object.entries(where).every(([name, value]) => instance.attributes[name] === value);
}

/** Splits host:port; the host of a bracketed IPv6 address comes without brackets. Throws `invalid`. */
export function splitAddress(address: string): { host: string; port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:\s]+)):(\d{1,5})$/.exec(address);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined) throw new FlynnError('invalid', `"${address}" is not an address: write host:port`);
  return { host, port: Number(match?.[3]) };
}
