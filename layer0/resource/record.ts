/** How is a resource stored, and read back? */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { checkJson, deepFreeze, encodeJson, parseJson } from '@flynn/store/codec';
import type { Entry } from '@flynn/store/store';
import { z } from 'zod';
import { conditionSchema } from './condition.ts';
import { resourceKey } from './keys.ts';
import type { FieldIssue, Owner, Resource, ResourceType } from './type.ts';

const recordSchema = z.object({
  type: z.string(),
  version: z.int().positive(),
  id: z.string(),
  /** Records of old have none: their ids were made once. */
  uid: z.string().optional(),
  generation: z.int().positive(),
  observedGeneration: z.int().optional(),
  createdAt: z.string(),
  updatedAt: z.string(),
  owner: z.object({ type: z.string(), id: z.string(), uid: z.string().optional() }).optional(),
  labels: z.record(z.string(), z.string()),
  finalizers: z.array(z.string()),
  waitingFor: z.record(z.string(), z.string()).default({}),
  deletingSince: z.string().optional(),
  conditions: z.array(conditionSchema).default([]),
  spec: z.unknown(),
  status: z.unknown(),
});

/** The revision is the store's to keep, not the record's. */
export function encodeResource(version: number, resource: Resource<unknown, unknown>): string {
  const { revision: _, ...record } = resource;
  return encodeJson({ version, ...record });
}

export function decodeResource<Spec, Status, SpecInput>(
  type: ResourceType<string, Spec, Status, SpecInput>,
  entry: Entry,
): Resource<Spec, Status> {
  return readRecord(type, parseJson(entry.value, entry.key), entry);
}

/** Somebody has to see to it: it is there, and this program cannot say what it is. */
export function unreadable(key: string, cause: unknown): FlynnError {
  return new FlynnError('internal', `${key} cannot be read: ${messageOf(cause)}`, {
    cause,
    detail: { unreadable: key },
  });
}

export function isUnreadable(error: unknown): error is FlynnError {
  return error instanceof FlynnError && error.detail['unreadable'] !== undefined;
}

/** Of a record whose type need not be known. */
export function uidOf(entry: Entry): string {
  const { id, uid = id } = checkJson(recordSchema, parseJson(entry.value, entry.key), entry.key);
  return uid;
}

/**
 * By whom a record is owned whose type need not be known, which object it is and whether it is being deleted: nothing, where
 * nothing of it can be read.
 */
export function envelopeIn(entry: Entry): { owner?: Owner; uid?: string; deletingSince?: string } {
  try {
    const {
      id,
      uid = id,
      owner,
      deletingSince,
    } = checkJson(recordSchema, parseJson(entry.value, entry.key), entry.key);
    return {
      uid,
      ...(owner === undefined ? {} : { owner: ownerOf(owner) }),
      ...(deletingSince === undefined ? {} : { deletingSince }),
    };
  } catch {
    return {};
  }
}

/** Throws `invalid` if the record is of a later version than this program knows, or not what its schemas say. */
export function readRecord<Spec, Status, SpecInput>(
  type: ResourceType<string, Spec, Status, SpecInput>,
  json: unknown,
  entry: Entry,
): Resource<Spec, Status> {
  const { version, ...record } = checkJson(recordSchema, json, entry.key);
  if (version > type.version) {
    throw new FlynnError(
      'invalid',
      `${entry.key} was written by a later version of flynn (${type.name} v${version}, this one knows v${type.version}): update this component`,
    );
  }
  const spec = checkJson(type.spec, record.spec, `${entry.key} (spec)`);
  const status = checkJson(type.status, record.status, `${entry.key} (status)`);
  const { owner, deletingSince, observedGeneration, uid = record.id, ...rest } = record;
  return deepFreeze({
    ...rest,
    uid,
    ...(owner === undefined ? {} : { owner: ownerOf(owner) }),
    ...(deletingSince === undefined ? {} : { deletingSince }),
    ...(observedGeneration === undefined ? {} : { observedGeneration }),
    spec,
    status,
    revision: entry.modRevision,
  });
}

/** Throws `invalid`, saying what is wrong with what was given for this resource. */
export function parseSpec<Spec, Status, SpecInput>(
  type: ResourceType<string, Spec, Status, SpecInput>,
  id: string,
  spec: unknown,
): Spec {
  return checkGiven(type.spec, spec, `${type.name} ${id}`);
}

export function parseStatus<Spec, Status, SpecInput>(
  type: ResourceType<string, Spec, Status, SpecInput>,
  id: string,
  status: unknown,
): Status {
  return checkGiven(type.status, status, `the status of ${type.name} ${id}`);
}

function checkGiven<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw refusal(what, fieldIssuesOf(parsed.error));
}

/** Of an unknown field, the path is the field's own. */
export function fieldIssuesOf(error: z.ZodError): FieldIssue[] {
  return error.issues.flatMap((issue) => {
    const path = issue.path.join('.');
    if (issue.code !== 'unrecognized_keys') return [{ path, message: issue.message }];
    return issue.keys.map((key) => ({ path: [...issue.path, key].join('.'), message: 'there is no such field' }));
  });
}

/** `invalid`, with each field's path; `detail.issues` has them for programs. */
export function refusal(what: string, issues: readonly FieldIssue[]): FlynnError {
  const lines = issues.map(({ path, message }) => `\n  ${path === '' ? 'spec' : path}: ${message}`);
  return new FlynnError('invalid', `${what} is not valid:${lines.join('')}`, { detail: { issues } });
}

function ownerOf({ type, id, uid }: { type: string; id: string; uid?: string | undefined }): Owner {
  return uid === undefined ? { type, id } : { type, id, uid };
}

/** The put that writes this state; its compare is `compareOf` the state it was made from. */
export function putOp<Spec, Status, SpecInput>(
  type: ResourceType<string, Spec, Status, SpecInput>,
  resource: Resource<Spec, Status>,
): { put: string; value: string } {
  return { put: resourceKey(type.name, resource.id), value: encodeResource(type.version, resource) };
}

/** "Still exactly this state"; for a draft (revision 0) "there is none yet". */
export function compareOf(resource: { type: string; id: string; revision: number }): {
  key: string;
  modRevision: number;
} {
  return { key: resourceKey(resource.type, resource.id), modRevision: resource.revision };
}
