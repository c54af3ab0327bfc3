/** Instances compared, sorted and picked. */
import type { Instance } from './api.ts';
import { compareAge } from './election.ts';

export function oldestFirst(set: ReadonlyMap<string, Instance>): readonly Instance[] {
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

export function hasAttributes(instance: Instance, where: Record<string, string>): boolean {
  return Object.entries(where).every(([name, value]) => instance.attributes[name] === value);
}

/** Host and port; the host of a bracketed IPv6 address comes without brackets. undefined for what is no host:port. */
export function findAddress(address: string): { host: string; port: number } | undefined {
  const match = /^(?:\[([^\]]+)\]|([^:\s]+)):(\d{1,5})$/.exec(address);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  return host === undefined || port > 65_535 ? undefined : { host, port };
}
