/** The installer on bundles of a few small files, with a folder of its own in place of /opt and /usr/local. */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { digestOf } from './images/tag.ts';
import { tryProgram } from './machine/program.ts';

const script = join(import.meta.dirname, 'install');
const platform = process.arch === 'arm64' ? 'linux-arm64' : 'linux-x64';
let folder = '';
const at = (...path: string[]): string => join(folder, ...path);

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'flynn-install-'));
  // Whoever runs the tests is root as far as the script can see.
  write(at('programs/id'), '#!/bin/sh\necho 0\n', 0o755);
});

afterEach(() => rmSync(folder, { recursive: true }));

function write(path: string, text: string, mode = 0o644): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text, { mode });
}

type Contents = Record<string, string>;

/** `changed` is put in its place after the digests were taken. */
function makeBundle(version: string, changed: Contents = {}, madeFor = platform, own: Contents = {}): string {
  const contents: Contents = {
    'bundle.json': JSON.stringify({ version, platform: madeFor }, undefined, 2),
    'bootstrap/packages': `#!/bin/sh\n[ "$1" = --note ] && echo nftables >>"$2"\n`,
    'bootstrap/install': readFileSync(script, 'utf8'),
    'node_modules/.bin/node': '#!/bin/sh\necho v24\n',
    'bin/flynn': '#!/bin/sh\n',
    'bin/flynn-host': `#!/bin/sh
echo "flynn-host ${version} $*"
[ "$1" != uninstall ] || exec sh "${at('opt')}/${version}/bootstrap/install" --remove-files --prefix "${at('opt')}"
`,
    ...own,
  };
  const sums = Object.entries(contents).map(([path, text]) => `${digestOf(text)}  ${path}\n`);
  const source = at('source');
  rmSync(source, { recursive: true, force: true });
  for (const [path, text] of Object.entries({ ...contents, ...changed }))
    write(join(source, 'flynn', path), text, 0o755);
  write(join(source, 'flynn/VERSION'), `${version}\n`);
  write(join(source, 'flynn/SHA256SUMS'), sums.join(''));
  const file = at(`flynn-${version}-${platform}.tar.gz`);
  execFileSync('tar', [
    '-czf',
    file,
    '-C',
    source,
    'flynn/VERSION',
    'flynn/SHA256SUMS',
    ...Object.keys(contents).map((path) => `flynn/${path}`),
  ]);
  return file;
}

function install(...args: string[]): { code: number | null; said: string } {
  return installFrom(process.cwd(), ...args);
}

function installFrom(cwd: string, ...args: string[]): { code: number | null; said: string } {
  const env = {
    ...process.env,
    PATH: `${at('programs')}:${process.env['PATH'] ?? ''}`,
    FLYNN_STATE_DIR: at('state'),
  };
  const { status, stdout, stderr } = spawnSync('sh', [script, '--prefix', at('opt'), ...args], {
    env,
    cwd,
    encoding: 'utf8',
  });
  return { code: status, said: `${stdout}${stderr}` };
}

function installed(...args: string[]): string {
  const { code, said } = install('--commands', at('bin'), ...args);
  assert.equal(code, 0, said);
  return said;
}

function refused(pattern: RegExp, ...args: string[]): void {
  const { code, said } = install('--commands', at('bin'), ...args);
  assert.equal(code, 1, said);
  assert.match(said, pattern);
}

const flynnHost = (): string => execFileSync(at('bin/flynn-host'), ['x'], { encoding: 'utf8' });

test('a bundle is put in a folder of its version, with its commands; again it stays as it is', () => {
  const bundle = makeBundle('1.0.0');
  assert.match(installed('--bundle', bundle), /unpacking version 1\.0\.0[\s\S]*flynn-host bootstrap/);
  assert.equal(flynnHost(), 'flynn-host 1.0.0 x\n');
  const { ino } = lstatSync(at('opt/1.0.0/bundle.json'));
  assert.match(installed('--bundle', bundle), /is in .* already/);
  assert.equal(lstatSync(at('opt/1.0.0/bundle.json')).ino, ino);
});

test('whoever may log in may run the commands, however closed what root makes otherwise is', () => {
  const bundle = makeBundle('1.0.0');
  const umask = process.umask(0o077);
  try {
    installed('--bundle', bundle);
  } finally {
    process.umask(umask);
  }
  for (const path of ['opt', 'opt/1.0.0', 'opt/1.0.0/bin', 'opt/1.0.0/bin/flynn', 'bin']) {
    assert.equal(lstatSync(at(path)).mode & 0o555, 0o555, path);
  }
});

test('a version whose Node does not run here is not put in its place', () => {
  const node = { 'node_modules/.bin/node': '#!/bin/sh\necho "version GLIBC_2.28 not found" >&2\nexit 1\n' };
  refused(
    /does not run on this machine: version GLIBC_2\.28 not found[\s\S]*glibc/,
    '--bundle',
    makeBundle('1.0.0', {}, platform, node),
  );
  assert.equal(existsSync(at('opt/1.0.0')), false);
});

test('another version goes beside it and is used from then on', () => {
  installed('--bundle', makeBundle('1.0.0'));
  installed('--bundle', makeBundle('1.1.0-rc.1'));
  assert.equal(flynnHost(), 'flynn-host 1.1.0-rc.1 x\n');
  assert.equal(readlinkSync(at('opt/current')), '1.1.0-rc.1');
  assert.ok(existsSync(at('opt/1.0.0/bin/flynn')));
});

test('on a host of a cluster another version is made ready alone: the whole cluster goes over to it, by an update', () => {
  installed('--bundle', makeBundle('1.0.0'));
  write(at('state/cluster.json'), '{}');
  const bundle = makeBundle('1.1.0');
  const said = installed('--bundle', bundle);
  assert.match(said, /version 1\.1\.0 is ready, and not in use[\s\S]*flynn-host update --bundle FILE/);
  assert.doesNotMatch(said, /bootstrap|join/);
  assert.equal(flynnHost(), 'flynn-host 1.0.0 x\n');
  assert.ok(existsSync(at('opt/1.1.0/bin/flynn')));
  // The one in use stays so, and a host that is without programs gets these.
  assert.match(installed('--bundle', makeBundle('1.0.0')), /is installed/);
  rmSync(at('opt/1.0.0'), { recursive: true });
  installed('--bundle', bundle);
  assert.equal(flynnHost(), 'flynn-host 1.1.0 x\n');
  // Who brings a token goes to the cluster with the version that it was told.
  assert.match(installed('--bundle', makeBundle('1.2.0'), '--join', 'TOKEN'), /flynn-host 1\.2\.0 join TOKEN/);
});

/** In place of curl: what is in a folder of the test, going on where a file ends as servers do. */
const curl = `#!/bin/sh
resume=''
while [ $# -gt 1 ]; do
  case $1 in
    -o) file=$2; shift ;;
    -C) resume=yes; shift ;;
  esac
  shift
done
path=\${1%%\\?*}
source="$FOLDER/web/\${path##*/}"
[ -e "$source" ] || exit 22
if [ -n "$resume" ] && [ -e "$file" ]; then
  there=$(wc -c <"$file")
  [ "$there" -lt "$(wc -c <"$source")" ] || exit 33
  tail -c +$((there + 1)) "$source" >>"$file"
else
  cp "$source" "$file"
fi
`;

test('a bundle is downloaded with its digest, from where an earlier download broke off, and what is damaged from the beginning', () => {
  write(at('programs/curl'), curl.replaceAll('$FOLDER', folder), 0o755);
  const bundle = makeBundle('1.0.0');
  const name = basename(bundle);
  const content = readFileSync(bundle);
  mkdirSync(at('web'));
  writeFileSync(at('web', name), content);
  write(at('web', `${name}.sha256`), `${digestOf(content)}  ${name}\n`);
  const url = `https://example.com/${name}`;
  refused(/could not be downloaded/, '--bundle', 'https://example.com/none.tar.gz');
  mkdirSync(at('opt/.download'), { recursive: true });
  writeFileSync(at('opt/.download', name), content.subarray(0, 50));
  installed('--bundle', url);
  assert.equal(flynnHost(), 'flynn-host 1.0.0 x\n');
  assert.equal(existsSync(at('opt/.download')), false);
  installed('--bundle', url, '--keep-current');
  assert.equal(existsSync(at('opt/.download')), false);
  mkdirSync(at('opt/.download'));
  writeFileSync(at('opt/.download', name), Buffer.alloc(50));
  refused(/is not what it should be/, '--bundle', url);
  assert.deepEqual(readdirSync(at('opt/.download')), []);
  writeFileSync(at('opt/.download', name), content);
  assert.match(installed('--bundle', url), /already/);
});

test('a version that is only made ready is not used yet', () => {
  installed('--bundle', makeBundle('1.0.0'));
  assert.match(installed('--bundle', makeBundle('1.1.0'), '--keep-current'), /version 1\.1\.0 is ready/);
  assert.equal(flynnHost(), 'flynn-host 1.0.0 x\n');
  assert.ok(existsSync(at('opt/1.1.0/bin/flynn')));
});

test('an installation that was broken off is done anew', () => {
  write(at('opt/.incoming/flynn/half'), '');
  installed('--bundle', makeBundle('1.0.0'));
  assert.deepEqual(readdirSync(at('opt')).sort(), ['1.0.0', 'commands', 'current', 'packages']);
});

test('a version is in its place once what it needs is there: whoever has it is not sent it again', () => {
  const failing = `#!/bin/sh\necho no mirror answers >&2\nexit 1\n`;
  const { code, said } = install('--bundle', makeBundle('1.0.0', {}, platform, { 'bootstrap/packages': failing }));
  assert.notEqual(code, 0);
  assert.match(said, /no mirror answers/);
  assert.equal(existsSync(at('opt/1.0.0')), false);
  installed('--bundle', makeBundle('1.0.0'));
  assert.equal(readFileSync(at('opt/packages'), 'utf8'), 'nftables\n');
});

test('one of the same version with other files takes its place, also where an earlier one was broken off in it', () => {
  installed('--bundle', makeBundle('1.0.0'));
  write(at('opt/1.0.0/SHA256SUMS'), 'of other files');
  write(at('opt/1.0.0/other'), '');
  write(at('opt/.outgoing/half'), '');
  assert.match(installed('--bundle', makeBundle('1.0.0')), /unpacking version 1\.0\.0/);
  assert.equal(flynnHost(), 'flynn-host 1.0.0 x\n');
  assert.equal(existsSync(at('opt/1.0.0/other')), false);
  assert.deepEqual(readdirSync(at('opt')).sort(), ['1.0.0', 'commands', 'current', 'packages']);
});

test('a version that was on its way out when the power went is back, and what was half there is gone', () => {
  installed('--bundle', makeBundle('1.0.0'));
  write(at('opt/1.0.0/VERSION'), '1.0.0\n');
  renameSync(at('opt/1.0.0'), at('opt/.outgoing'));
  write(at('opt/.incoming/flynn/half'), '');
  installed('--bundle', makeBundle('1.1.0'), '--keep-current');
  assert.equal(flynnHost(), 'flynn-host 1.0.0 x\n');
  assert.deepEqual(readdirSync(at('opt')).sort(), ['1.0.0', '1.1.0', 'commands', 'current', 'packages']);
});

test('a disk that fills while a version is unpacked leaves what was there, and says why', () => {
  installed('--bundle', makeBundle('1.0.0'));
  const tar = `[ "$1" = -xmzf ] || exec env PATH=/usr/bin:/bin tar "$@"\necho 'tar: No space left on device' >&2\nexit 2\n`;
  write(at('programs/tar'), `#!/bin/sh\n${tar}`, 0o755);
  refused(/No space left on device[\s\S]*could not be unpacked/, '--bundle', makeBundle('1.1.0'), '--keep-current');
  assert.equal(flynnHost(), 'flynn-host 1.0.0 x\n');
  assert.deepEqual(readdirSync(at('opt')).sort(), ['1.0.0', 'commands', 'current', 'packages']);
});

test('one that is ended leaves no program of its own and nothing half done', async () => {
  const bundle = makeBundle('1.0.0');
  // Unpacking takes until it is ended; what is read before it does not.
  const tar = `#!/bin/sh\n[ "$1" = -xmzf ] || exec env PATH=/usr/bin:/bin tar "$@"\nexec sh -c 'echo $$ >"${at('unpacking')}"; exec sleep 600'\n`;
  write(at('programs/tar'), tar, 0o755);
  const ending = new AbortController();
  const env = { PATH: `${at('programs')}:${process.env['PATH'] ?? ''}` };
  const args = [script, '--prefix', at('opt'), '--commands', at('bin'), '--bundle', bundle];
  const run = tryProgram('sh', args, { timeoutMs: 60_000, signal: ending.signal, env });
  const ended = assert.rejects(run, (error) => hasCode(error, 'cancelled'));
  const pid = await waitFor(() => existsSync(at('unpacking')) && Number(readFileSync(at('unpacking'), 'utf8')), {
    what: 'the unpacking',
    deadlineMs: 30_000,
  });
  ending.abort();
  await ended;
  await waitFor(() => !existsSync(`/proc/${pid}`), { what: 'the end of what unpacked', deadlineMs: 30_000 });
  assert.equal(existsSync(at('opt')), false);
});

test('a second one waits for the first, and is refused when that does not end', async () => {
  const bundle = makeBundle('1.0.0');
  mkdirSync(at('opt'));
  const first = spawn('flock', [at('opt'), 'sh', '-c', 'echo held; read _'], { stdio: ['pipe', 'pipe', 'ignore'] });
  try {
    await once(first.stdout, 'data');
    let said = '';
    const args = [script, '--prefix', at('opt'), '--commands', at('bin'), '--bundle', bundle];
    const env = { PATH: `${at('programs')}:${process.env['PATH'] ?? ''}` };
    const second = tryProgram('sh', args, {
      timeoutMs: 60_000,
      env,
      onLine: (line) => {
        said += `${line}\n`;
        if (line.includes('waiting for its end')) first.stdin.end('\n');
      },
    });
    assert.equal((await second).code, 0, said);
    assert.match(said, /another installation is at work in .*: waiting for its end\n.*unpacking version 1\.0\.0/);
  } finally {
    first.kill('SIGKILL');
  }
  write(at('programs/flock'), '#!/bin/sh\nexit 1\n', 0o755);
  refused(/has not ended within 5 minutes/, '--bundle', bundle);
});

test('what a version brings along and leaves running keeps nobody from installing another', () => {
  const daemon = `#!/bin/sh\nsleep 600 >/dev/null 2>&1 </dev/null &\necho $! >"${at('daemon')}"\n`;
  installed('--bundle', makeBundle('1.0.0', {}, platform, { 'bootstrap/packages': daemon }));
  try {
    assert.doesNotMatch(installed('--bundle', makeBundle('1.1.0')), /waiting/);
  } finally {
    process.kill(Number(readFileSync(at('daemon'), 'utf8')), 'SIGKILL');
  }
});

test('with a token the machine joins a cluster right after', () => {
  assert.match(installed('--bundle', makeBundle('1.0.0'), '--join', 'TOKEN'), /flynn-host 1\.0\.0 join TOKEN$/m);
});

test('one behind NAT joins as that, and says so with a token or not at all', () => {
  const bundle = makeBundle('1.0.0');
  refused(/said with --join/, '--bundle', bundle, '--behind-nat', 'home');
  const said = installed('--bundle', bundle, '--join', 'TOKEN', '--behind-nat', 'home');
  assert.match(said, /flynn-host 1\.0\.0 join TOKEN --behind-nat home$/m);
});

test('a file that is not what the digests say, a damaged bundle and none at all are refused, and nothing is there', () => {
  refused(/is damaged/, '--bundle', makeBundle('1.0.0', { 'bin/flynn': '#!/bin/sh\nrm -rf /\n' }));
  const bundle = makeBundle('1.0.0');
  refused(/SHA-256 is [0-9a-f]{64}, not 0000/, '--bundle', bundle, '--sha256', '0000');
  write(`${bundle}.sha256`, `${digestOf('another')}  x\n`);
  refused(/is not what it should be/, '--bundle', bundle);
  rmSync(`${bundle}.sha256`);
  writeFileSync(bundle, readFileSync(bundle).subarray(0, 100));
  refused(/is no bundle of flynn, or a damaged one/, '--bundle', bundle);
  refused(/cannot be read/, '--bundle', at('nothing'));
  refused(/no bundle for/);
  assert.equal(existsSync(at('opt')), false);
  assert.equal(existsSync(at('bin')), false);
});

test('a bundle for other machines is refused', () => {
  refused(/is not for this machine/, '--bundle', makeBundle('1.0.0', {}, 'linux-other'));
  assert.equal(existsSync(at('opt')), false);
});

test('a command of the same name that is somebody else’s is not replaced, and nothing is changed', () => {
  write(at('bin/flynn'), 'another');
  refused(/is there already, and is not this installation's/, '--bundle', makeBundle('1.0.0'));
  assert.equal(readFileSync(at('bin/flynn'), 'utf8'), 'another');
  assert.equal(existsSync(at('opt')), false);
});

test('uninstalling takes the machine out of its cluster, then every version and link, and nothing else', () => {
  installed('--bundle', makeBundle('1.0.0'));
  installed('--bundle', makeBundle('1.1.0'));
  write(at('opt/notes'), 'mine');
  write(at('bin/other'), 'mine');
  const said = installed('--uninstall');
  assert.match(said, /flynn-host 1\.1\.0 uninstall[\s\S]*stay: nftables[\s\S]*not flynn's/);
  assert.deepEqual(readdirSync(at('opt')), ['notes']);
  assert.deepEqual(readdirSync(at('bin')), ['other']);
  assert.match(installed('--uninstall'), /is not flynn's/);
});

test('commands are in one folder: given another, those in the former one go; a link that was broken off goes with the rest', () => {
  const bundle = makeBundle('1.0.0');
  installed('--bundle', bundle);
  write(at('bin/other'), 'mine');
  const { code, said } = install('--bundle', bundle, '--commands', at('sbin'));
  assert.equal(code, 0, said);
  assert.deepEqual([readdirSync(at('bin')), readdirSync(at('sbin'))], [['other'], ['flynn', 'flynn-host']]);
  symlinkSync(at('opt/current/bin/flynn'), at('sbin/flynn.new'));
  assert.equal(install('--uninstall').code, 0);
  assert.deepEqual(readdirSync(at('sbin')), []);
});

test('where the commands are is not known any more after a power cut that emptied the note: all goes on with the usual folder', () => {
  installed('--bundle', makeBundle('1.0.0'));
  writeFileSync(at('opt/commands'), '');
  const { code, said } = install('--bundle', makeBundle('1.1.0'), '--keep-current');
  assert.equal(code, 0, said);
  assert.match(said, /version 1\.1\.0 is ready/);
  installed('--bundle', makeBundle('1.0.0'));
  assert.equal(readFileSync(at('opt/commands'), 'utf8'), `${at('bin')}\n`);
  assert.deepEqual(readdirSync(at('opt')).sort(), ['1.0.0', '1.1.0', 'commands', 'current', 'packages']);
});

test('a folder for the commands that cannot be written to is told of before anything is unpacked', () => {
  write(at('usr'), 'as a file system that is read-only');
  const { code, said } = install('--bundle', makeBundle('1.0.0'), '--commands', at('usr'));
  assert.deepEqual([code, /cannot be written to[^]*--commands FOLDER/.test(said)], [1, true], said);
  assert.equal(existsSync(at('opt')), false);
});

test('a bundle may have an address with a query, and a name with a colon', () => {
  write(at('programs/curl'), curl.replaceAll('$FOLDER', folder), 0o755);
  const bundle = makeBundle('1.0.0');
  const name = basename(bundle);
  mkdirSync(at('web'));
  const content = readFileSync(bundle);
  writeFileSync(at('web', name), content);
  write(at('web', `${name}.sha256`), `${digestOf('another')}  ${name}\n`);
  refused(/is not what it should be/, '--bundle', `https://example.com/${name}?a=1`);
  write(at('web', `${name}.sha256`), `${digestOf(content)}  ${name}\n`);
  installed('--bundle', `https://example.com/${name}?signature=${'a'.repeat(300)}&path=/b/c`);
  assert.equal(flynnHost(), 'flynn-host 1.0.0 x\n');
  renameSync(makeBundle('1.1.0'), at('day:1.tar.gz'));
  const { code, said } = installFrom(folder, '--bundle', 'day:1.tar.gz');
  assert.equal(code, 0, said);
  assert.equal(flynnHost(), 'flynn-host 1.1.0 x\n');
});

test('without its programs a host of a cluster is not uninstalled by halves', () => {
  write(at('state/cluster.json'), '{}');
  refused(/is a host of a cluster/, '--uninstall');
});

test('what it does not know is refused with what there is', () => {
  refused(/unknown option --what/, '--what');
  refused(/--bundle takes a value/, '--bundle');
  refused(/absolute path/, '--prefix', 'here');
  const { code, said } = install('--commands', 'bin');
  assert.deepEqual([code, /--commands takes an absolute path/.test(said)], [1, true], said);
  for (const odd of ['a b', "a'b", 'a"b', 'a\\b', 'a$b', 'a%b', 'a#b', 'a`b']) {
    refused(/a path without spaces/, '--prefix', at(odd));
  }
  assert.match(installed('--help'), /install \[--bundle FILE\|URL\]/);
});
