/** The records of a part as they are written into a store: checked by their types, and without what is over. Pure. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { LineSplitter } from '@flynn/kit/lines';
import { nameKey } from '@flynn/resource/keys';
import { decodeResource, putOp } from '@flynn/resource/record';
import type { Resource } from '@flynn/resource/type';
import type { Entry, Operation } from '@flynn/store/store';
import { autoscaleType } from '../autoscale/resource.ts';
import { auditRoot } from '../audit/trail.ts';
import { backupPlanType } from '../datastore-backups/types.ts';
import { restoredQueue } from '../notifications/queue.ts';
import { notificationType } from '../notifications/types.ts';
import { appType, artifactType, cronType } from '../resources.ts';
import { sourceType } from '../source/resource.ts';
import type { Bytes } from './archive.ts';
import { keptTypes, lineSchema, prefixOf } from './contents.ts';
import { auditName, typeOfRecords } from './manifest.ts';
import type { Part } from './manifest.ts';
import { backupScheduleType } from './resources.ts';

/** The store takes a megabyte. */
const maxLineBytes = 4 * 1024 ** 2;

export type RestoredOnto = Readonly<{
  nowMs: number;
  /** What slugs are stacked on here: the one they were made for was made by the cluster that is gone. */
  slugRunnerImage: string;
  /** What datastores run on here, likewise. */
  applianceImages: readonly string[];
}>;

/** `app` and `source` come in two steps: an app goes live, and follows a repository, once its blobs are there. */
export type RestoredRecord = Readonly<{
  writes: readonly Operation[];
  /** Of an app: what it ran. */
  live?: Readonly<{ appId: string; releaseId: string; isDatastore: boolean }>;
  isLate: boolean;
}>;

/** `invalid` for what this version does not know, or what is no record of that part. */
export async function* recordsOf(part: Part, body: Bytes, onto: RestoredOnto): AsyncGenerator<RestoredRecord> {
  const splitter = new LineSplitter({ maxBytes: maxLineBytes });
  for await (const chunk of body) for (const line of splitter.push(chunk)) yield recordOf(part, line, onto);
  for (const line of splitter.flush()) yield recordOf(part, line, onto);
}

function recordOf(part: Part, line: string, onto: RestoredOnto): RestoredRecord {
  const { key, value } = parseLine(part, line);
  const entry: Entry = { key, value: JSON.stringify(value), createRevision: 0, modRevision: 0 };
  if (part.name === auditName && key.startsWith(auditRoot)) {
    return { writes: [{ put: key, value: entry.value }], isLate: false };
  }
  const name = typeOfRecords(part.name);
  const type = keptTypes.find((one) => one.name === name);
  if (type === undefined) {
    throw new FlynnError(
      'invalid',
      `the backup has ${part.name}, which this version of flynn does not know: use a later one`,
    );
  }
  if (!key.startsWith(prefixOf(type)))
    throw new FlynnError('invalid', `${part.name} has a record of something else: ${key}`);
  const before = decodeResource(type, entry);
  if (prefixOf(type) + before.id !== key) throw new FlynnError('invalid', `${key} is the record of ${before.id}`);
  const resource = settled(entry, before, onto);
  const own = type.nameOf?.(resource.spec);
  const writes: Operation[] = [putOp(type, resource)];
  if (own !== undefined) writes.push({ put: nameKey(type.name, own), value: resource.id });
  const live = type === appType ? liveOf(entry) : undefined;
  return { writes, ...(live === undefined ? {} : { live }), isLate: type === sourceType };
}

/** Without what was under way: nothing of that is here. */
function settled(entry: Entry, resource: Resource<unknown, unknown>, onto: RestoredOnto): Resource<unknown, unknown> {
  switch (resource.type) {
    case appType.name: {
      const app = decodeResource(appType, entry);
      const { lastVersion, releaseId, wasLive = releaseId !== undefined } = app.status;
      return { ...app, status: { lastVersion, ...(wasLive ? { wasLive } : {}) } };
    }
    case artifactType.name: {
      const artifact = decodeResource(artifactType, entry);
      const { image } = artifact.spec;
      const here = 'name' in image ? onto.applianceImages.find(isSameAs(image.name)) : undefined;
      if (here !== undefined) return { ...artifact, spec: { ...artifact.spec, image: { name: here } } };
      if (!('base' in image) || repositoryOf(image.base) !== repositoryOf(onto.slugRunnerImage)) return artifact;
      return { ...artifact, spec: { ...artifact.spec, image: { ...image, base: onto.slugRunnerImage } } };
    }
    case autoscaleType.name: {
      const autoscale = decodeResource(autoscaleType, entry);
      const { held: _held, seen: _seen, ...status } = autoscale.status;
      return { ...autoscale, status };
    }
    case cronType.name: {
      // The ticks of the time in between are over.
      const cron = decodeResource(cronType, entry);
      return { ...cron, status: { ...cron.status, handledMs: Math.max(cron.status.handledMs, onto.nowMs) } };
    }
    case backupPlanType.name: {
      const plan = decodeResource(backupPlanType, entry);
      const handledMs = Math.max(plan.status.handledMs, onto.nowMs);
      // Its volumes are empty: what was in them is put back once it runs.
      const restore = { state: 'waiting', isOwed: true, wantedMs: onto.nowMs, attempt: 0, nextMs: onto.nowMs } as const;
      return { ...plan, status: { handledMs, restore } };
    }
    case backupScheduleType.name: {
      const schedule = decodeResource(backupScheduleType, entry);
      const { pending: _p, isWanted: _w, ...status } = schedule.status;
      return { ...schedule, status };
    }
    case notificationType.name: {
      // What waited is told by the cluster that it happened on; so is its pulse, until somebody says that this one took its place.
      return { ...decodeResource(notificationType, entry), status: restoredQueue };
    }
    case sourceType.name: {
      const source = decodeResource(sourceType, entry);
      const { pollId: _, ...status } = source.status;
      return { ...source, status };
    }
    default:
      return resource;
  }
}

function isSameAs(name: string): (image: string) => boolean {
  return (image) => repositoryOf(image) === repositoryOf(name);
}

function repositoryOf(image: string): string {
  return image.replace(/:[^:/]*$/, '');
}

function liveOf(entry: Entry): RestoredRecord['live'] {
  const { id, spec, status, deletingSince } = decodeResource(appType, entry);
  const { releaseId } = status;
  if (spec.isSystem || deletingSince !== undefined || releaseId === undefined) return undefined;
  return { appId: id, releaseId, isDatastore: spec.datastore !== undefined };
}

function parseLine(part: Part, line: string): { key: string; value: unknown } {
  try {
    return lineSchema.parse(JSON.parse(line));
  } catch (error) {
    throw new FlynnError('invalid', `${part.name} has a line that is no record: ${messageOf(error)}`, { cause: error });
  }
}
