/** `flynn-host snapshot save`: a backup of what the cluster knows, also while the agent is down. */
import { resolve } from 'node:path';
import type { CliContext } from './context.ts';
import { formatBytes } from './format.ts';

export function addSnapshotCommands({ program, installation, print }: CliContext): void {
  const snapshot = program.command('snapshot').description("backups of the cluster's store, etcd");
  snapshot
    .command('save')
    .description('write all that etcd holds, secrets included, to a file; it appears whole and verified, or not at all')
    .argument('<file>')
    .action(async (file: string) => {
      // The etcd client takes half a second to load: no other command waits for it.
      const { backUp } = await import('../cluster/backup.ts');
      const path = resolve(file);
      const { bytes, sha256, endpoint, isAlone } = await backUp(await installation(), path);
      print(`${path}: ${formatBytes(bytes)} from ${endpoint}, sha256 ${sha256}\n`);
      if (isAlone) print('etcd has no majority: this is what that member had when it last heard of the others\n');
    });
}
