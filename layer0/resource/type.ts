/** A resource type: what its objects hold, and what may become of them. */
import type { Revision } from '@flynn/store/store';
import type { z } from 'zod';
import type { Asking } from './access.ts';
import type { Condition } from './condition.ts';

/** One thing that is wrong with a given spec; `path` is within the spec: `ports.0.port`. */
export type FieldIssue = Readonly<{ path: string; message: string }>;

/**
 * What is common to every write, whoever asks for it: the service calls mutate, then checks the schema, then validate.
 * Hooks are methods, so that a type of something is also a type of unknown things: see AnyType.
 */
export type ResourceType<Name extends string, Spec, Status, SpecInput = Spec> = Readonly<{
  /** What keys and owner references say: lower case, `app`. */
  name: Name;
  /** Who defines it, in snake_case: the API has its objects under /api/GROUP/vVERSION/KIND. */
  group: string;
  /** PascalCase: `App`. */
  kind: string;
  /** The version of the stored form. Objects of a later version are refused, so that a rollback never garbles them. */
  version: number;
  spec: z.ZodType<Spec, SpecInput>;
  status: z.ZodType<Status>;
  initialStatus: () => Status;
  /** The type of which each object has an owner. Without it any owner, or none, will do. */
  owner?: string;
  /** Fields of the spec that stay as they were made. */
  immutable?: readonly string[];
  /** Fields of the spec that change also while it is being deleted: what says how it goes, or to whom it still is something. */
  changesWhileDeleting?: readonly string[];
  /** The field of the spec that holds its name: people give it beside the spec, not in it. */
  nameField?: string;
  /** What a name has to look like. */
  nameRule?: z.ZodType<string>;
  /** The last writer: puts into its canonical form what may be written in several. Idempotent. */
  mutate?(spec: Spec): Spec;
  /** What a schema cannot say. Empty: it is fine. */
  validate?(spec: Spec): readonly FieldIssue[];
  /** Throws FlynnError `invalid` if `before` must not become `after`: something immutable changed. */
  validateUpdate?(before: Spec, after: Spec): void;
  /** The name no two objects of the type share. It may change with the spec; undefined means that it has none. */
  nameOf?(spec: Spec): string | undefined;
  /** Who may do what with it. Without a hook: operators. */
  authorise?: Authorisation<Spec, Status>;
  /** Whether what an object owned goes after it, by the reaper. False: nothing is ever owned by it, or it sees to that itself. */
  cascades: boolean;
}>;

export type Authorisation<Spec, Status> = Readonly<{
  read?(asking: Asking, resource: Resource<Spec, Status>): boolean;
  list?(asking: Asking): boolean;
  /** `owner` is the one it has or is to have; without a resource it is to be made. */
  write?(asking: Asking, owner: Owner | undefined, resource: Resource<Spec, Status> | undefined): boolean;
}>;

export type AnyType = ResourceType<string, unknown, unknown, unknown>;

/** With a uid only that very owner counts, not another that has its id now. */
export type Owner = Readonly<{ type: string; id: string; uid?: string }>;

export type Resource<Spec, Status> = Readonly<{
  type: string;
  id: string;
  /** Of this very object: one that is made later under the same id has another. */
  uid: string;
  /** The store's modRevision of this state: compare with it to write. 0 on a draft. */
  revision: Revision;
  /** Starts at 1 and rises by one with every change of the spec. */
  generation: number;
  /** The generation whoever reconciles it last acted on; behind `generation`, what status and conditions say is of before. */
  observedGeneration?: number;
  /** ISO 8601, UTC. */
  createdAt: string;
  updatedAt: string;
  /** Set when it was made, once and for all. */
  owner?: Owner;
  labels: Readonly<Record<string, string>>;
  /** Who has to clean up before the object may go. */
  finalizers: readonly string[];
  /** What they wait for, by finalizer, in words for people. */
  waitingFor: Readonly<Record<string, string>>;
  /** Set once deletion was asked for while there were finalizers. */
  deletingSince?: string;
  conditions: readonly Condition[];
  spec: Spec;
  status: Status;
}>;

type Field<T> = keyof T & string;

/** What is kept of a type: `ResourceOf<typeof appType>`. */
export type ResourceOf<T> =
  T extends ResourceType<string, infer Spec, infer Status, infer _SpecInput> ? Resource<Spec, Status> : never;

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
  /** Default: `flynn`. */
  group?: string;
  /** Default: the name in PascalCase. */
  kind?: string;
  version: number;
  spec: SpecSchema;
  status: StatusSchema;
  initialStatus: () => z.output<StatusSchema>;
  owner?: string;
  immutable?: readonly Field<z.output<SpecSchema>>[];
  changesWhileDeleting?: readonly Field<z.output<SpecSchema>>[];
  /** Makes `nameOf` too. */
  nameField?: Field<z.output<SpecSchema>>;
  nameRule?: z.ZodType<string>;
  mutate?: (spec: z.output<SpecSchema>) => z.output<SpecSchema>;
  validate?: (spec: z.output<SpecSchema>) => readonly FieldIssue[];
  validateUpdate?: (before: z.output<SpecSchema>, after: z.output<SpecSchema>) => void;
  nameOf?: (spec: z.output<SpecSchema>) => string | undefined;
  authorise?: Authorisation<z.output<SpecSchema>, z.output<StatusSchema>>;
  /** Default: true. */
  cascades?: boolean;
}): ResourceType<Name, z.output<SpecSchema>, z.output<StatusSchema>, z.input<SpecSchema>>;
export function defineType<Name extends string, Spec, Status, SpecInput>(
  definition: Omit<ResourceType<Name, Spec, Status, SpecInput>, 'group' | 'kind' | 'cascades'> & {
    group?: string;
    kind?: string;
    cascades?: boolean;
  },
): ResourceType<Name, Spec, Status, SpecInput> {
  const { name, nameField } = definition;
  const named = nameField === undefined ? {} : { nameOf: (spec: Spec) => textField(spec, nameField) };
  return Object.freeze({ group: 'flynn', kind: pascalCase(name), cascades: true, ...named, ...definition });
}

function pascalCase(name: string): string {
  return name.replaceAll(/(?:^|[-_])([a-z0-9])/g, (_, first: string) => first.toUpperCase());
}

function textField(spec: unknown, field: string): string | undefined {
  if (typeof spec !== 'object' || spec === null) return undefined;
  const value: unknown = Reflect.get(spec, field);
  return typeof value === 'string' ? value : undefined;
}
