/** How is a datastore? What its members say of themselves and each other, put together with where they run. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { JobStatus } from '@flynn/scheduler/cell';
import { z } from 'zod';
import type { Appliance } from '@flynn/appliances/appliance';
import type { Job } from '../model.ts';
import type { VolumeView } from '../volumes/api.ts';
import type { DatastoreView, Member } from './api.ts';

/** What `commands.status` of an appliance writes. */
const statusSchema = z.object({
  members: z.array(
    z.object({
      name: z.string(),
      address: z.string(),
      isPrimary: z.boolean(),
      isSynchronous: z.boolean(),
      state: z.string(),
      lagBytes: z.int().nullable(),
    }),
  ),
  database: z
    .object({
      version: z.string(),
      sizeBytes: z.int(),
      maxBytes: z.int().optional(),
      keys: z.int().optional(),
      connections: z.int(),
      maxConnections: z.int(),
    })
    .nullable(),
  /** Why the primary did not tell of the database. */
  problem: z.string().nullable(),
});
export type Status = z.output<typeof statusSchema>;

/** Throws `internal` for what is no such answer. */
export function parseStatus(text: string): Status {
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw notUnderstood(error);
  }
  const { data, error } = statusSchema.safeParse(found);
  if (data === undefined) throw notUnderstood(error);
  return data;
}

function notUnderstood(cause: unknown): FlynnError {
  return new FlynnError('internal', `what the member says cannot be understood: ${messageOf(cause)}`, { cause });
}

/** Its members' jobs, those that are up first: who of them can be asked. */
export function membersOf(appliance: Appliance, statuses: readonly JobStatus[]): JobStatus[] {
  const rank = ({ state }: JobStatus): number => (state === 'running' ? 0 : 1);
  return statuses
    .filter(({ meta, state }) => meta['flynn.type'] === appliance.name && (state === 'running' || state === 'starting'))
    .toSorted((a, b) => rank(a) - rank(b) || (a.id < b.id ? -1 : 1));
}

type Known = {
  app: { id: string; name: string };
  resourceId: string;
  kind: string;
  memoryBytes: number;
  /** Of members, those that are wanted and not up among them. */
  jobs: readonly Job[];
  volumes: readonly VolumeView[];
  status: Status | undefined;
  problem: string | undefined;
};

export function describeDatastore({ jobs, volumes, status, problem, ...known }: Known): DatastoreView {
  const said = new Map((status?.members ?? []).map((member) => [member.address, member]));
  const volumeOf = new Map(volumes.map(({ hostId, bytes }) => [hostId, bytes]));
  const members = jobs.map(({ id, hostId, address, state }): Member => {
    const own = address === undefined ? undefined : said.get(address);
    if (address !== undefined) said.delete(address);
    const volumeBytes = hostId === undefined ? undefined : volumeOf.get(hostId);
    return {
      job: id,
      ...(hostId === undefined ? {} : { host: hostId }),
      ...(address === undefined ? {} : { address }),
      ...(own === undefined ? { role: 'unknown' as const, isSynchronous: false, state } : roleOf(own)),
      ...(volumeBytes === undefined ? {} : { volumeBytes }),
    };
  });
  // Those that their keyspace knows and no host tells of.
  const away = [...said.values()].map((member): Member => Object.assign(roleOf(member), { address: member.address }));
  const why = problem ?? status?.problem ?? undefined;
  return {
    ...known,
    members: [...members, ...away].toSorted((a, b) => rankOf(a) - rankOf(b) || orderOf(a).localeCompare(orderOf(b))),
    ...(status?.database === undefined || status.database === null ? {} : { database: status.database }),
    ...(why === undefined ? {} : { problem: why }),
  };
}

function roleOf(said: Status['members'][number]): Pick<Member, 'role' | 'isSynchronous' | 'state' | 'lagBytes'> {
  const { isPrimary, isSynchronous, state, lagBytes } = said;
  return {
    role: isPrimary ? 'primary' : 'replica',
    isSynchronous,
    state,
    ...(lagBytes === null ? {} : { lagBytes }),
  };
}

function rankOf({ role }: Member): number {
  return role === 'primary' ? 0 : 1;
}

function orderOf({ host = '', address = '' }: Member): string {
  return `${host} ${address}`;
}
