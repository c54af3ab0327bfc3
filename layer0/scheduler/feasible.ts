/** May a job be on a host at all? What is full is the placing's to know. */
import type { Constraint, HostRecord, OperatorSettings } from './cell.ts';
import { constraintText, hostAttribute, passes } from './placement/host-classes.ts';
import type { Attributes } from './placement/host-classes.ts';
import type { HostSpec } from './placement/host-table.ts';

/** What people say of a host wins over what it says of itself. */
export function attributesOf(host: HostRecord, settings: OperatorSettings | undefined): Attributes {
  return settings === undefined ? host.attributes : { ...host.attributes, ...settings.tags };
}

/** Whether new jobs may be placed there. */
export function isOpen(host: HostRecord, settings: OperatorSettings | undefined): boolean {
  return !host.cordoned && settings?.cordoned !== true && settings?.drain === undefined;
}

/** A host as placing knows it. */
export function hostSpecOf(host: HostRecord, settings: OperatorSettings | undefined): HostSpec {
  const attributes = attributesOf(host, settings);
  return { id: host.id, capacity: host.capacity, attributes, isOpen: isOpen(host, settings) };
}

/** The first constraint the host does not meet, in words; undefined when it meets them all. */
export function failedConstraint(
  hostId: string,
  attributes: Attributes,
  constraints: readonly Constraint[],
): string | undefined {
  const failed = constraints.find(
    (one) => !passes(one, one.attribute === hostAttribute ? hostId : attributes[one.attribute]),
  );
  return failed === undefined ? undefined : constraintText(failed);
}
