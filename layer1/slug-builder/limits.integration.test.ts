/** Builds that take more than they may: each ends in its limit, says which, and leaves nothing. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type ContainerBuilds, openContainerBuilds } from './container-builds.ts';

let builds: ContainerBuilds;
let root = '';

before(async () => {
  builds = await openContainerBuilds();
  root = await mkdtemp(join(tmpdir(), 'flynn-limits-'));
});

after(async () => {
  await builds[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

type Greedy = {
  name: string;
  compile: string;
  env?: Record<string, string>;
  flags?: string[];
  says: RegExp;
};

const greedy: Greedy[] = [
  {
    name: 'sleeps for ever',
    compile: 'trap "" TERM; while :; do sleep 1; done',
    env: { FLYNN_BUILD_TIMEOUT: '4s' },
    says: /took longer than its limit of 4 s.*FLYNN_BUILD_TIMEOUT/s,
  },
  {
    name: 'fills the disk with one file',
    compile: 'head -c 300000000 /dev/zero > "$1/large"',
    env: { FLYNN_BUILD_DISK: '200MB' },
    says: /bin\/compile .*failed with exit code 153 \(it wrote a file larger/,
  },
  {
    name: 'fills the disk with many files',
    compile: 'for i in $(seq 100); do head -c 10000000 /dev/zero > "/tmp/$i"; sleep 0.1; done; sleep 60',
    env: { FLYNN_BUILD_DISK: '200MB' },
    says: /to the disk; its limit is 200\.0M.*FLYNN_BUILD_DISK/s,
  },
  {
    name: 'eats memory',
    compile: `perl -e '$x .= "x" x 1000000 while 1'`,
    flags: ['--memory', '300m', '--memory-swap', '300m'],
    says: /needed more memory than its limit of 300\.0M.*FLYNN_BUILD_MEMORY/s,
  },
  {
    name: 'forks without end',
    compile: 'for i in $(seq 1000); do sleep 100 & done; wait',
    flags: ['--pids-limit', '100'],
    says: /more processes than its limit of 100.*FLYNN_BUILD_PIDS/s,
  },
  {
    name: 'prints 32 MB',
    compile: 'for i in $(seq 32); do head -c 1000000 /dev/zero | tr "\\0" "x" | fold -w 1000; done',
    env: { FLYNN_BUILD_OUTPUT: '1MB' },
    says: /printed more than its limit of 1\.0M.*FLYNN_BUILD_OUTPUT/s,
  },
  {
    name: 'makes a slug that is too large',
    compile: 'head -c 20000000 /dev/urandom > "$1/large"',
    env: { FLYNN_SLUG_SIZE: '10MB' },
    says: /slug is larger than its limit of 10\.0M.*\.slugignore/s,
  },
];

for (const { name, compile, env = {}, flags = [], says } of greedy) {
  test(`a build that ${name} ends within its limit and says so`, { timeout: 120_000 }, async () => {
    const dir = await greedyApp(compile);
    const { code, output, result } = await builds.build('greedy', dir, {
      appEnv: { BUILDPACK_URL: '/app/pack' },
      env,
      flags,
    });
    assert.notEqual(code, 0, output.slice(-3_000));
    assert.match(output.slice(-3_000), says);
    assert.ok(output.length < 2_000_000);
    assert.equal(result, undefined);
  });
}

test('a cache that is too large is forgotten, and the build is fine', { timeout: 120_000 }, async () => {
  const dir = await greedyApp('echo "had: $(ls "$2" | wc -l)"; head -c "${SIZE:-20000000}" /dev/urandom > "$2/large"');
  const options = { appEnv: { BUILDPACK_URL: '/app/pack' } };
  const fine = await builds.build('cached', dir, options);
  assert.equal(fine.code, 0, fine.output);
  const large = await builds.build('cached', dir, { ...options, env: { FLYNN_BUILD_CACHE: '10MB' } });
  assert.equal(large.code, 0, large.output);
  assert.match(large.output, /had: 1[^]*cache could not be stored.*larger than its limit of 10\.0M/);
  assert.match((await builds.build('cached', dir, options)).output, /had: 0/);
});

/** A folder with a buildpack of its own. */
async function greedyApp(compile: string): Promise<string> {
  const dir = await mkdtemp(join(root, 'app-'));
  await mkdir(join(dir, 'pack/bin'), { recursive: true });
  await writeFile(join(dir, 'Procfile'), 'web: true\n');
  await writeFile(join(dir, 'pack/bin/detect'), '#!/bin/sh\necho Greedy\n');
  await writeFile(join(dir, 'pack/bin/compile'), `#!/bin/bash\n${compile}\n`);
  return dir;
}
