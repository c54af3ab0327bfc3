/**
 * Which records of the cluster are in a backup? Those of what people made; what hosts and the platform know by themselves is
 * not.
 */
import { parseJson } from '@flynn/store/codec';
import type { Entry } from '@flynn/store/store';
import { resourcePrefix } from '@flynn/resource/keys';
import { tombstoneType } from '@flynn/resource/tombstone';
import type { AnyType } from '@flynn/resource/type';
import { z } from 'zod';
import { grantType, teamType, tokenType, userType } from '../access/resources.ts';
import { autoscaleType } from '../autoscale/resource.ts';
import { acmeType } from '../certificates/acme/resources.ts';
import { certificateType } from '../certificates/resources.ts';
import { ticketsType } from '../certificates/tickets.ts';
import {
  appType,
  artifactType,
  cronType,
  deploymentType,
  drainType,
  formationType,
  keyType,
  operationType,
  releaseType,
  routeType,
  runnerType,
} from '../resources.ts';
import { notificationType } from '../notifications/types.ts';
import { runnerEnvType } from '../runner-env/resource.ts';
import { hookType } from '../source/hook/resource.ts';
import { sourceType } from '../source/resource.ts';
import { backupPlanType, datastoreBackupType } from '../datastore-backups/types.ts';
import { archiveType, historyType } from '../datastore-history/types.ts';
import { providerType, resourceType } from '../providers/types.ts';
import { backupScheduleType, backupType } from './resources.ts';

/** In the order in which they are written and restored. */
export const keptTypes: readonly AnyType[] = [
  userType,
  teamType,
  tokenType,
  keyType,
  runnerType,
  runnerEnvType,
  acmeType,
  certificateType,
  appType,
  grantType,
  artifactType,
  releaseType,
  formationType,
  autoscaleType,
  routeType,
  drainType,
  notificationType,
  cronType,
  sourceType,
  hookType,
  providerType,
  resourceType,
  backupPlanType,
  datastoreBackupType,
  backupScheduleType,
];

/** A flynn of before knows no part of theirs: it is left out where nothing is in it, so that such a backup is for that one too. */
export const laterTypes: ReadonlySet<string> = new Set(
  [autoscaleType, backupPlanType, datastoreBackupType, hookType, notificationType].map(({ name }) => name),
);

/**
 * Of work under way, of sessions, of backups themselves, and of datastores' histories, which begin anew with new data: nothing of
 * it could be gone on with elsewhere.
 */
export const leftTypes: readonly AnyType[] = [
  deploymentType,
  operationType,
  ticketsType,
  tombstoneType,
  backupType,
  historyType,
  archiveType,
];

/** What every cluster makes anew for its parts, and what opens only what is gone. */
const ownVariables = new Set([
  'FLYNN_KEY',
  'FLYNN_CONTROLLER_TOKEN',
  'FLYNN_ETCD_CA',
  'FLYNN_ETCD_CERT',
  'FLYNN_ETCD_KEY',
  'FLYNN_SEALING_KEY',
]);

export function withoutOwnVariables(env: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !ownVariables.has(name)));
}

/** As much of a record as the choice takes: the rest may be of a later version, and is kept as it is. */
const recordSchema = z.object({
  id: z.string(),
  owner: z.object({ type: z.string(), id: z.string() }).optional(),
  spec: z.looseObject({}),
});

/** The platform's own apps are what `up` makes of them: of those there is what people set around them. */
export type Platform = Readonly<{ appIds: ReadonlySet<string>; artifactIds: ReadonlySet<string> }>;

/** `dumpIds`: of each datastore the backup that comes along, of which the blob does. */
export function isKept(
  type: AnyType,
  entry: Entry,
  { appIds, artifactIds, dumpIds }: Platform & { dumpIds: ReadonlySet<string> },
): boolean {
  const { id, owner, spec } = recordSchema.parse(parseJson(entry.value, entry.key));
  const isPlatforms = owner !== undefined && owner.type === appType.name && appIds.has(owner.id);
  switch (type) {
    case artifactType:
      return !artifactIds.has(id);
    case releaseType:
    case formationType:
    case cronType:
      return !isPlatforms;
    case datastoreBackupType:
      return dumpIds.has(id);
    case runnerType:
      return spec['isPlatform'] !== true;
    default:
      return true;
  }
}

/** A record as a line of its part. */
export function lineOf({ key, value }: Pick<Entry, 'key' | 'value'>): string {
  return `${JSON.stringify({ key, value: parseJson(value, key) })}\n`;
}

export const lineSchema = z.object({ key: z.string(), value: z.unknown() });

/** Under which all keys of a type are. */
export function prefixOf(type: Pick<AnyType, 'name'>): string {
  return resourcePrefix(type.name);
}
