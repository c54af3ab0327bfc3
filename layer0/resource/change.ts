/** What does a resource become by a change? Checked by its type's schemas and hooks. Pure but for the hooks. */
import { FlynnError } from '@flynn/kit/errors';
import { deepFreeze, encodeJson } from '@flynn/store/codec';
import { withConditions } from './condition.ts';
import type { NewCondition } from './condition.ts';
import { checkId } from './keys.ts';
import { parseSpec, parseStatus, refusal } from './record.ts';
import type { Owner, Resource, ResourceType } from './type.ts';

export type NewResource<SpecInput, Status> = {
  /** Default: a new time-ordered one. */
  id?: string;
  spec: SpecInput;
  status?: Status;
  owner?: Owner;
  labels?: Readonly<Record<string, string>>;
  finalizers?: readonly string[];
};

/** What a change sets; what it leaves out stays. */
export type ResourceChange<Spec, Status> = {
  spec?: Spec;
  status?: Status;
  labels?: Readonly<Record<string, string>>;
  finalizers?: readonly string[];
  /** Each takes the place of the one of its type. */
  conditions?: readonly NewCondition[];
  observedGeneration?: number;
  /** By finalizer; those of finalizers that are gone go with them. */
  waitingFor?: Readonly<Record<string, string>>;
};

type Type<Spec, Status, SpecInput> = ResourceType<string, Spec, Status, SpecInput>;

export function draftOf<Spec, Status, SpecInput>(
  type: Type<Spec, Status, SpecInput>,
  input: NewResource<SpecInput, Status>,
  { newId, at }: { newId: () => string; at: string },
): Resource<Spec, Status> {
  const own = newId();
  const id = input.id ?? own;
  checkId(type.name, id);
  return deepFreeze({
    type: type.name,
    id,
    uid: own,
    revision: 0,
    generation: 1,
    createdAt: at,
    updatedAt: at,
    ...(input.owner === undefined ? {} : { owner: { ...input.owner } }),
    labels: { ...input.labels },
    finalizers: [...(input.finalizers ?? [])],
    waitingFor: {},
    conditions: [],
    spec: prepareSpec(type, id, input.spec),
    status: parseStatus(type, id, input.status ?? type.initialStatus()),
  });
}

/** The same object if nothing changes. */
export function changed<Spec, Status, SpecInput>(
  type: Type<Spec, Status, SpecInput>,
  current: Resource<Spec, Status>,
  change: ResourceChange<Spec, Status>,
  at: string,
): Resource<Spec, Status> {
  const spec = change.spec === undefined ? current.spec : prepareSpec(type, current.id, change.spec);
  const status = change.status === undefined ? current.status : parseStatus(type, current.id, change.status);
  const { labels = current.labels, finalizers = current.finalizers, observedGeneration } = change;
  const isSpecChanged = encodeJson(spec) !== encodeJson(current.spec);
  if (isSpecChanged) checkUpdate(type, current, spec);
  const waitingFor = Object.fromEntries(
    Object.entries({ ...current.waitingFor, ...change.waitingFor }).filter(([name]) => finalizers.includes(name)),
  );
  const next = {
    ...current,
    spec,
    status,
    labels: { ...labels },
    finalizers: [...finalizers],
    waitingFor,
    conditions: withConditions(current.conditions, change.conditions ?? [], at),
    ...(observedGeneration === undefined ? {} : { observedGeneration }),
  };
  if (encodeJson(next) === encodeJson(current)) return current;
  if (current.deletingSince !== undefined) {
    checkFinalizers(current, finalizers);
    if (isSpecChanged) checkGoing(type, current, spec);
  }
  return deepFreeze({ ...next, generation: current.generation + (isSpecChanged ? 1 : 0), updatedAt: at });
}

/** Mutate, then schema, then validate. */
function prepareSpec<Spec, Status, SpecInput>(type: Type<Spec, Status, SpecInput>, id: string, given: unknown): Spec {
  const parsed = parseSpec(type, id, given);
  const spec = type.mutate === undefined ? parsed : parseSpec(type, id, type.mutate(parsed));
  const what = `${type.name} ${id}`;
  const issues = type.validate?.(spec) ?? [];
  if (issues.length > 0) throw refusal(what, issues);
  const name = type.nameOf?.(spec);
  const wrong = name === undefined ? undefined : type.nameRule?.safeParse(name).error?.issues[0];
  if (wrong !== undefined) throw refusal(what, [{ path: type.nameField ?? 'name', message: wrong.message }]);
  return spec;
}

function checkUpdate<Spec, Status, SpecInput>(
  type: Type<Spec, Status, SpecInput>,
  current: Resource<Spec, Status>,
  spec: Spec,
): void {
  const moved = (type.immutable ?? []).filter((field) => fieldOf(current.spec, field) !== fieldOf(spec, field));
  if (moved.length > 0) {
    throw refusal(
      `${type.name} ${current.id}`,
      moved.map((path) => ({ path, message: 'it cannot change: make a new object instead' })),
    );
  }
  type.validateUpdate?.(current.spec, spec);
}

function fieldOf(value: unknown, field: string): string | undefined {
  return typeof value === 'object' && value !== null ? encodeJson(Reflect.get(value, field) ?? null) : undefined;
}

/** What is on its way out is wanted otherwise by nobody: who cleans up after it would do so for what it is not any more. */
function checkGoing<Spec, Status, SpecInput>(
  { changesWhileDeleting = [] }: Type<Spec, Status, SpecInput>,
  current: Resource<Spec, Status>,
  spec: Spec,
): void {
  const fields = new Set([current.spec, spec].flatMap((one) => Object.keys(Object(one))));
  const open: ReadonlySet<string> = new Set(changesWhileDeleting);
  const moved = [...fields].filter((name) => !open.has(name) && fieldOf(current.spec, name) !== fieldOf(spec, name));
  if (moved.length === 0) return;
  throw new FlynnError(
    'conflict',
    `${current.type} ${current.id} is being deleted since ${current.deletingSince ?? ''}: it is not changed any more (${moved.join(', ')}); make it anew once it is gone`,
  );
}

/** Nobody takes on something that is on its way out: it would wait for them, who do not know. */
function checkFinalizers(current: Resource<unknown, unknown>, finalizers: readonly string[]): void {
  const added = finalizers.filter((name) => !current.finalizers.includes(name));
  if (added.length === 0) return;
  throw new FlynnError(
    'conflict',
    `${current.type} ${current.id} is being deleted since ${current.deletingSince ?? ''}: finalizers can only be taken off it, not ${added.join(', ')} put on`,
  );
}
