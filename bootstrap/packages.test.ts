/** The script, on a machine that has hardly anything, and whose apt-get is one of the test's. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, mkdtempDisposable, readFile, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const run = promisify(execFile);
const script = join(import.meta.dirname, 'packages');
const tools = ['cat', 'date', 'grep', 'ls', 'mktemp', 'rm', 'sed', 'tail', 'tr'];

/** `locked`: how many calls find its lock taken. `half`: what was broken off, of programs that are all there unless named. */
async function machine({
  locked = 0,
  half,
  isBroken = false,
  has,
  installed,
}: {
  locked?: number;
  half?: string;
  /** Packages are looked up, and not installed. */
  isBroken?: boolean;
  has?: string[];
  /** A package that dpkg knows. */
  installed?: string;
}) {
  const folder = await mkdtempDisposable(join(tmpdir(), 'flynn-packages-'));
  const at = (name: string): string => join(folder.path, name);
  for (const name of tools) await symlink(`/usr/bin/${name}`, at(name));
  await writeFile(at('left'), `${locked}\n`);
  await writeFile(at('sleep'), `#!/bin/sh\necho slept >>${at('did')}\n`);
  const programs = has ?? (half === undefined ? [] : ['git', 'ssh-keygen', 'ip', 'nft', 'dockerd', 'iptables']);
  for (const name of programs) await writeFile(at(name), '', { mode: 0o755 });
  await writeFile(at('dpkg'), `#!/bin/sh\necho "dpkg $*" >>${at('did')}\n`);
  await writeFile(
    at('dpkg-query'),
    `#!/bin/sh
case "$*" in
*' ${installed ?? 'none'}') printf installed ;;
*' docker-ce-cli' | *' podman-docker') exit 1 ;;
*) printf 'git installed\\n${half ?? 'git installed'}\\n' ;;
esac
`,
  );
  await writeFile(
    at('apt-get'),
    `#!/bin/sh
left=$(cat ${at('left')})
echo $((left - 1)) >${at('left')}
if [ "$left" -gt 0 ]; then
  echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 812 (apt-get)' >&2
  exit 100
fi
if ${half !== undefined} && ! grep -q 'dpkg --configure' ${at('did')} 2>/dev/null; then
  echo "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem." >&2
  exit 100
fi
echo "$*" >>${at('did')}
if ${isBroken}; then case "$*" in *update*) ;; *) exit 100 ;; esac; fi
`,
  );
  await writeFile(at('apt-cache'), '#!/bin/sh\nexit 0\n');
  for (const name of ['sleep', 'apt-get', 'apt-cache', 'dpkg', 'dpkg-query']) await chmod(at(name), 0o755);
  const env = { SUDO_USER: 'me', PATH: folder.path, FLYNN_DOCKER_SOCKET: at('docker.sock'), TMPDIR: folder.path };
  return {
    install: () => run('/bin/sh', [script, '--note', at('note')], { env }),
    read: (name: string) => readFile(at(name), 'utf8'),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

test('what a machine lacks is installed and noted, once its own updates are through with apt', async () => {
  await using fresh = await machine({ locked: 3 });
  const { stdout } = await fresh.install();
  assert.match(stdout, /Installing Debian packages: git .*docker\.io[^]*waiting[^]*Installed: git/);
  assert.match(await fresh.read('did'), /^slept\nslept\nslept\n-q update\n.*install.* git .*docker\.io/);
  assert.match(await fresh.read('note'), /^git\n/);
});

test('what an installation had begun with is noted, so that uninstalling names it, however that one ended', async () => {
  await using fresh = await machine({ isBroken: true });
  await assert.rejects(fresh.install(), /packages could not be installed[^]*behind a proxy: sudo/);
  assert.match(await fresh.read('note'), /^git\n[^]*docker\.io\n/);
});

test('a machine that has only the client of Docker gets an engine, and nothing that it has is removed for that', async () => {
  await using host = await machine({ has: ['git', 'ssh-keygen', 'ip', 'nft', 'docker'] });
  await host.install();
  assert.match(await host.read('did'), /install .*--no-remove.* docker\.io containerd runc iptables\n/);
});

test('a host gets what WireGuard is set up with, and a program in its place where the kernel has none', async () => {
  const has = ['git', 'ssh-keygen', 'ip', 'nft', 'dockerd'];
  await using bare = await machine({ has });
  await bare.install();
  assert.match(await bare.read('did'), /install .* wireguard-tools\n[^]*install .* wireguard-go\n/);
  await using able = await machine({ has: [...has, 'wg', 'modprobe'] });
  await able.install();
  assert.doesNotMatch(await able.read('did').catch(() => ''), /wireguard/);
});

test('beside the client of another engine Debian’s is not tried: what goes with it is named, and nothing is changed', async () => {
  await using host = await machine({ has: ['git', 'ssh-keygen', 'ip', 'nft', 'docker'], installed: 'docker-ce-cli' });
  await assert.rejects(host.install(), /client of docker-ce-cli and no engine[^]*apt-get remove docker-ce-cli/);
  await assert.rejects(host.read('did'));
});

test('an apt that is never free is told with who has it', async () => {
  await using busy = await machine({ locked: 1e6 });
  await assert.rejects(busy.install(), /held by process 812[^]*packages could not be installed/);
});

test('an installation that a power cut broke off is gone on with, also where all programs are there', async () => {
  await using host = await machine({ half: 'docker.io half-configured' });
  await host.install();
  assert.match(await host.read('did'), /^dpkg --configure -a\n[^]*install.* docker\.io/);
});
