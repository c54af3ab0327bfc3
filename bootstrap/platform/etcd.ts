/** The store of the control plane, as a job the host agent runs without being told by it. */
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  type EtcdMemberOptions,
  etcdJob,
  etcdResident,
  residentFile,
  trustedBy,
} from '@flynn/host-agent/cluster/etcd-resident';
import { etcdImageKey } from '@flynn/host-agent/cluster/member-keys';
import { endpointsFile, knownEndpoints } from '@flynn/host-agent/cluster/membership';
import { volumeName } from '@flynn/host-agent/engine/labels';
import type { ResidentInput } from '@flynn/host-agent/jobs/resident';
import { lostVolumes, readVolumesHad } from '@flynn/host-agent/jobs/resident-volumes';
import { FlynnError } from '@flynn/kit/errors';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import type { Store } from '@flynn/store/store';
import { z } from 'zod';
import { commands } from '../origin.ts';

const flagsSchema = z.object({
  template: z.object({
    command: z.array(z.string()),
    volumes: z.array(z.object({ name: z.string() })),
    meta: z.record(z.string(), z.string()).optional(),
  }),
});

/**
 * The member of the host that makes the cluster; later on its image and flags are brought up to date, while how it came
 * into etcd's cluster stays. A host whose member was taken away gets none.
 */
export async function ensureEtcd(member: EtcdMemberOptions): Promise<void> {
  const { stateDir } = member;
  const isNew = !existsSync(residentFile(stateDir)) && !existsSync(endpointsFile(stateDir));
  if (isNew) await writeResident(stateDir, etcdResident(member));
  else await updateEtcd(member);
}

/**
 * `conflict` where the engine has lost what this host's member had, and no other member has it: it would not be started, and the
 * cluster is not begun anew unasked. `there`: the engine's volumes.
 */
export async function checkStoreData(
  { cluster, stateDir }: Pick<EtcdMemberOptions, 'cluster' | 'stateDir'>,
  there: () => Promise<readonly string[]>,
): Promise<void> {
  const existing = await readJsonFile(residentFile(stateDir), flagsSchema);
  const had = (await readVolumesHad(dirname(residentFile(stateDir))))[etcdJob];
  if (existing === undefined || had === undefined || (await knownEndpoints(stateDir, [])).length > 1) return;
  const wanted = existing.template.volumes.map(({ name }) => volumeName(cluster, name));
  const [lost] = lostVolumes(wanted, { had, there: await there() });
  if (lost === undefined) return;
  throw new FlynnError(
    'conflict',
    `the engine has no volume ${lost} any more, in which was all that the cluster knows, and no other host has a copy. Where a disk of the engine is not mounted, mount it and start the engine again. Where it is gone for good: ${commands.down}, then ${commands.restore} FILE if there is a backup, or ${commands.up} to begin anew`,
  );
}

/** Of a host that has a member; else nothing. */
export async function updateEtcd(member: EtcdMemberOptions): Promise<void> {
  const { stateDir } = member;
  const existing = await readJsonFile(residentFile(stateDir), flagsSchema);
  if (existing === undefined) return;
  // It starts again for another authority in its turn alone, which is its agent's to see to.
  const trusted = trustedBy(existing);
  const kept = { ...joiningOf(existing.template), ...(trusted === undefined ? {} : { trusted }) };
  await writeResident(stateDir, etcdResident({ ...member, ...kept }));
}

/** What hosts run when they become members, or are brought up to date. */
export async function tellEtcdImage(store: Store, image: string): Promise<void> {
  if ((await readEtcdImage(store)) === image) return;
  await store.transact({ then: [{ put: etcdImageKey, value: JSON.stringify(image) }] });
}

export async function readEtcdImage(store: Store): Promise<string | undefined> {
  const entry = await store.get(etcdImageKey);
  return entry === undefined ? undefined : z.string().parse(JSON.parse(entry.value));
}

/** Which data is a member's own, and of one that joined others what it was told then. */
function joiningOf(template: z.output<typeof flagsSchema>['template']): Partial<EtcdMemberOptions> {
  const flag = (name: string): string | undefined =>
    template.command.find((word) => word.startsWith(`--${name}=`))?.slice(name.length + 3);
  const initialCluster = flag('initial-cluster-state') === 'existing' ? flag('initial-cluster') : undefined;
  const memberId = /^etcd-(.+)$/.exec(template.volumes[0]?.name ?? '')?.[1];
  return {
    ...(initialCluster === undefined ? {} : { initialCluster }),
    ...(memberId === undefined ? {} : { memberId }),
  };
}

/** The agent takes it up by itself. */
async function writeResident(stateDir: string, resident: ResidentInput): Promise<void> {
  await mkdir(join(stateDir, 'resident'), { recursive: true, mode: 0o700 });
  await writeFileAtomic(residentFile(stateDir), `${JSON.stringify(resident, undefined, 2)}\n`);
}
