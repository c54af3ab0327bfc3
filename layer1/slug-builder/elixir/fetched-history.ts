/** What Mix keeps of repositories that it has packages of: nothing that runs reads it, and it may be larger than the app. */
import { join } from 'node:path';
import type { BuildContext } from '../buildpack.ts';
import { runForOutput } from '../command.ts';
import { exists } from '../nodejs/toolchain.ts';

/** After Mix's last run: it takes a package without its repository for one that is to be fetched. */
export async function removeFetchedHistory({ layout, baseEnv, signal }: BuildContext): Promise<void> {
  const dir = join(layout.appDir, 'deps');
  if (!(await exists(dir))) return;
  const command = ['find', '.', '-name', '.git', '-prune', '-exec', 'rm', '-rf', '{}', '+'] as const;
  await runForOutput(command, { cwd: dir, env: baseEnv, signal });
}
