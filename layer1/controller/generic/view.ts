/** Objects of any kind as the generic API shows them. */
import { FlynnError } from '@flynn/kit/errors';
import { outlookOf } from '@flynn/resource/condition';
import { versionOf } from '@flynn/resource/registry';
import type { AnyType, Owner, Resource } from '@flynn/resource/type';
import { nameOf } from '@flynn/resource/watch';
import { z } from 'zod';
import type { Deps } from '../deps.ts';
import type { GenericObject, KindView } from './api.ts';
import { isRecord } from './difference.ts';
import { namesOf } from './kind.ts';
import type { Kind } from './kind.ts';
import type { ResourceReader } from './reader.ts';

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

export async function viewObject(
  deps: Deps,
  kind: Kind,
  resource: Resource<unknown, unknown>,
  read: ResourceReader,
): Promise<GenericObject> {
  const { type } = kind;
  const shown = (await kind.view?.(deps, resource, read)) ?? {};
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
    ...(resource.owner === undefined ? {} : { owner: await ownerName(deps, resource.owner, read) }),
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

/** `app/shop`; with its id if it is gone. */
async function ownerName({ kinds }: Deps, { type: typeName, id }: Owner, read: ResourceReader): Promise<string> {
  const type = kinds.registry.find(typeName);
  const owner = type === undefined ? undefined : await read.find(type, id);
  return `${typeName}/${type === undefined || owner === undefined ? id : nameOf(type, owner)}`;
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
