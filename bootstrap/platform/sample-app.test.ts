import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmod, mkdir, mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { commitSample, sampleStanding, sshCommand } from './sample-app.ts';

test('the sample is pushed to this machine, by the host key that the domain is known by, wherever its name leads', () => {
  const seen = (gitUrl: string): string[] => {
    const told = sshCommand({ gitUrl, key: { privateFile: '/k', publicFiles: [] }, knownHostsFile: '/known' });
    const { host, port } = new URL(gitUrl);
    const settings = execFileSync('sh', ['-c', `${told} -G -p ${port || 22} git@${host.replace(/:.*/, '')}`], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return settings.split('\n').filter((line) => /^(hostname|port|hostkeyalias) /.test(line));
  };
  assert.deepEqual(seen('ssh://git@apps.example.invalid:2222').toSorted(), [
    'hostkeyalias [apps.example.invalid]:2222',
    'hostname 127.0.0.1',
    'port 2222',
  ]);
  assert.ok(seen('ssh://git@apps.example.invalid:22').includes('hostkeyalias apps.example.invalid'));
});

test('the sample is pushed until it was there once, and never into an app that somebody made of its name', () => {
  assert.equal(sampleStanding(undefined, undefined), 'to be pushed');
  assert.equal(sampleStanding({}, undefined), 'to be pushed', 'its push failed');
  for (const before of ['live', 'gone'] as const) {
    assert.equal(sampleStanding(undefined, before), 'gone');
    assert.equal(sampleStanding({}, before), 'gone');
    assert.equal(sampleStanding({ releaseId: 'r1' }, before), 'live');
  }
});

/** Of before 2.28: it refuses the option, and knows no variable for its file of settings. */
const oldGit = (git: string): string => `#!/bin/sh
unset GIT_CONFIG_GLOBAL
for word in "$@"; do
  case $word in --initial-branch*) echo "error: unknown option" >&2; exit 129 ;; esac
done
exec ${git} "$@"
`;

test('the sample is the same commit, on main, by an old git, too', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-sample-test-'));
  const git = execFileSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).trim();
  const programs = join(folder.path, 'programs');
  await mkdir(programs);
  await writeFile(join(programs, 'git'), oldGit(git));
  await chmod(join(programs, 'git'), 0o755);
  const sample = join(folder.path, 'sample');
  await commitSample(sample, { PATH: `${programs}:${process.env['PATH'] ?? ''}` });
  const head = (...args: string[]): string => execFileSync(git, ['-C', sample, ...args], { encoding: 'utf8' }).trim();
  assert.equal(head('symbolic-ref', 'HEAD'), 'refs/heads/main');
  const commit = head('rev-parse', 'HEAD');
  await commitSample(join(folder.path, 'again'));
  assert.equal(
    execFileSync(git, ['-C', join(folder.path, 'again'), 'rev-parse', 'HEAD'], { encoding: 'utf8' }).trim(),
    commit,
  );
});
