/** A resource type: what its objects hold, and what may become of them. */
import type { Revision } from '@flynn/store/store';
import type { z } from 'zod';

export type ResourceType<Name extends string, Spec, Status, SpecInput = Spec> = Readonly<{
  name: Name;
  /** The version of the stored form. Objects of a later version are refused, so that a rollback never garbles them. */
  version: number;
  spec: z.ZodType<Spec, SpecInput>;
  status: z.ZodType<Status>;
  initialStatus: () => Status;
  /** Throws FlynnError `invalid` if `before` must not become `after`: something immutable changed. */
  validateUpdate?: (before: Spec, after: Spec) => void;
  /** The name no two objects of the type share. It may change with the spec; undefined means that it has none. */
  nameOf?: (spec: Spec) => string | undefined;
}>;

export type Owner = Readonly<{ type: string; id: string }>;

export type Resource<Spec, Status> = Readonly<{
  type: string;
  id: string;
  /** The store's modRevision of this state: compare with it to write. 0 on a draft. */
  revision: Revision;
  /** Starts at 1 and rises by one with every change of the spec. A reconciler notes in the status which one it has seen. */
  generation: number;
  /** ISO 8601, UTC. */
  createdAt: string;
  updatedAt: string;
  owner?: Owner;
  labels: Readonly<Record<string, string>>;
  /** Who has to clean up before the object may go. */
  finalizers: readonly string[];
  /** Set once deletion was asked for while there were finalizers. */
  deletingSince?: string;
  spec: Spec;
  status: Status;
}>;

/**
 * Schemas describe what is stored as well as what is given: parsing what they have parsed must change nothing, so
 * defaults are fine and transforms are not.
 */
export function defineType<
  const Name extends string,
  SpecSchema extends z.ZodType,
  StatusSchema extends z.ZodType,
>(definition: {
  name: Name;
  version: number;
  spec: SpecSchema;
  status: StatusSchema;
  initialStatus: () => z.output<StatusSchema>;
  validateUpdate?: (before: z.output<SpecSchema>, after: z.output<SpecSchema>) => void;
  nameOf?: (spec: z.output<SpecSchema>) => string | undefined;
}): ResourceType<Name, z.output<SpecSchema>, z.output<StatusSchema>, z.input<SpecSchema>>;
export function defineType<Name extends string, Spec, Status, SpecInput>(
  definition: ResourceType<Name, Spec, Status, SpecInput>,
): ResourceType<Name, Spec, Status, SpecInput> {
  return Object.freeze(definition);
}
