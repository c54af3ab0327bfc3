/**
 * A command on a test host as on a machine that has nothing of flynn: test hosts have this machine's files, so the
 * repository and Node are hidden from it, and /opt and /usr/local/bin are the host's own.
 */
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import type { ExecOptions, ExecResult } from '@flynn/bootstrap/test-hosts/test-host';

const root = resolve(import.meta.dirname, '..');

const script = `set -e
own=$1 hidden=$2
shift 2
mount --bind "$own/opt" /opt
mount --bind "$own/commands" /usr/local/bin
mount -t tmpfs none "$hidden"
for program in node npm npx; do
  for folder in /usr/bin /usr/local/sbin; do [ ! -e "$folder/$program" ] || mount --bind /dev/null "$folder/$program"; done
done
exec "$@"`;

export async function execBare(
  host: ClusterHost,
  args: readonly [string, ...string[]],
  options: ExecOptions = {},
): Promise<ExecResult> {
  for (const name of ['opt', 'commands']) await mkdir(join(host.directory, name), { recursive: true });
  return host.exec(['unshare', '--mount', 'sh', '-c', script, 'bare', host.directory, root, ...args], {
    timeoutMs: 600_000,
    ...options,
    env: { ...host.settings, PATH: '/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin', ...options.env },
  });
}
