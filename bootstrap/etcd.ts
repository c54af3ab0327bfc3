/** The store of the control plane, as a job the host agent runs without being told by it. */
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type EtcdMemberOptions, etcdResident } from '@flynn/host-agent/cluster/etcd-resident';
import { endpointsFile, residentFile } from '@flynn/host-agent/cluster/membership';
import type { ResidentInput } from '@flynn/host-agent/resident';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import { z } from 'zod';

const flagsSchema = z.object({
  template: z.object({ command: z.array(z.string()), volumes: z.array(z.object({ name: z.string() })) }),
});

/**
 * The member of the host that makes the cluster; later on its image and flags are brought up to date, while how it came
 * into etcd's cluster stays. A host whose member was taken away gets none.
 */
export async function ensureEtcd(member: EtcdMemberOptions): Promise<void> {
  const { stateDir } = member;
  const file = residentFile(stateDir);
  const existing = await readJsonFile(file, flagsSchema);
  if (existing === undefined) {
    if (!existsSync(endpointsFile(stateDir))) await writeResident(stateDir, etcdResident(member));
    return;
  }
  await writeResident(stateDir, etcdResident({ ...member, ...joiningOf(existing.template) }));
}

/** Of a member that joined others: what it was told then. */
function joiningOf(template: z.output<typeof flagsSchema>['template']): Partial<EtcdMemberOptions> {
  const flag = (name: string): string | undefined =>
    template.command.find((word) => word.startsWith(`--${name}=`))?.slice(name.length + 3);
  if (flag('initial-cluster-state') !== 'existing') return {};
  const initialCluster = flag('initial-cluster');
  const memberId = template.volumes[0]?.name.replace(/^etcd-/, '');
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
