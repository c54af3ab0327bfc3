/** Objects of any kind as the generic API shows them. */
import { FlynnError } from '@flynn/kit/errors';
import { outlookOf } from '@flynn/resource/condition';
import { versionOf } from '@flynn/resource/registry';
import type { AnyType, Owner, Resource } from '@flynn/resource/type';
import { nameOf } from '@flynn/resource/watch';
import { z } from 'zod';
import type { Deps } from './deps.ts';
import type { GenericObject, KindView } from './generic-api.ts';
import { isRecord } from './generic-difference.ts';
import { namesOf } from './generic-kind.ts';
import type { Kind } from './generic-kind.ts';

export function viewKind(kind: Kind): KindView {
  const { type, summary, writes, isExported, columns, wanted } = kind;
  return {
    group: type.group,
    version: versionOf(type),
    kind: type.kind,
    names: namesOf(kind),
    summary,
    isWritable: writes !== 'none',
    isExported,
    columns: { ...columns },
    ...(wanted === undefined ? {} : { spec: z.toJSONSchema(wanted, { io: 'input', unrepresentable: 'any' }) }),
  };
}

/** Looks up each owner once; for one answer, since names change. */
export class OwnerNames {
  readonly #deps: Pick<Deps, 'kinds' | 'resources'>;
  readonly #known = new Map<string, Promise<string>>();

  constructor(deps: Pick<Deps, 'kinds' | 'resources'>) {
    this.#deps = deps;
  }

  /** `app/shop`; with its id if it is gone. */
  async of(owner: Owner, signal: AbortSignal): Promise<string> {
    const key = `${owner.type}/${owner.id}`;
    const known = this.#known.get(key) ?? this.#read(owner, signal);
    this.#known.set(key, known);
    return known;
  }

  async #read({ type: typeName, id }: Owner, signal: AbortSignal): Promise<string> {
    const type = this.#deps.kinds.registry.find(typeName);
    const owner = type === undefined ? undefined : await this.#deps.resources.find(type, id, { signal });
    return `${typeName}/${type === undefined || owner === undefined ? id : nameOf(type, owner)}`;
  }
}

export async function viewObject(
  deps: Deps,
  kind: Kind,
  resource: Resource<unknown, unknown>,
  options: { owners: OwnerNames; signal: AbortSignal },
): Promise<GenericObject> {
  const { type } = kind;
  const shown = (await kind.view?.(deps, resource, options.signal)) ?? {};
  const { generation, deletingSince } = resource;
  const conditions = shown.conditions ?? resource.conditions;
  const observedGeneration = shown.observedGeneration ?? resource.observedGeneration;
  const observed = observedGeneration === undefined ? {} : { observedGeneration };
  const since = deletingSince === undefined ? {} : { deletingSince };
  const outlook = outlookOf({ generation, conditions, ...observed, ...since });
  return {
    group: type.group,
    version: versionOf(type),
    kind: type.kind,
    name: shown.name ?? nameOf(type, resource),
    ...(resource.owner === undefined ? {} : { owner: await options.owners.of(resource.owner, options.signal) }),
    labels: { ...resource.labels },
    spec: { ...(shown.spec ?? specOf(type, resource.spec)) },
    status: { ...(shown.status ?? fieldsOf(resource.status)) },
    conditions: [...conditions],
    ...(outlook === undefined
      ? {}
      : { outlook: typeof outlook === 'string' ? outlook : outlook.message || `not ${outlook.type}` }),
    metadata: {
      id: resource.id,
      uid: resource.uid,
      revision: resource.revision,
      generation,
      ...observed,
      createdAt: resource.createdAt,
      updatedAt: resource.updatedAt,
      finalizers: [...resource.finalizers],
      waitingFor: { ...resource.waitingFor },
      ...since,
    },
  };
}

/** Without the field that holds the name, which is told beside it. */
export function specOf(type: AnyType, spec: unknown): Record<string, unknown> {
  const { nameField } = type;
  return Object.fromEntries(Object.entries(fieldsOf(spec)).filter(([name]) => name !== nameField));
}

function fieldsOf(value: unknown): Record<string, unknown> {
  if (isRecord(value)) return value;
  throw new FlynnError('internal', 'a spec and a status are objects');
}
