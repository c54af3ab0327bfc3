import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';

let dir = '';

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'flynn-run-'));
  await mkdir(join(dir, '.profile.d'));
  await writeFile(join(dir, '.profile.d/a.sh'), 'export FROM_PROFILE="of the profile"\n');
  await writeFile(join(dir, '.profile'), 'export LAST="after $FROM_PROFILE"\n');
});
after(() => rm(dir, { recursive: true, force: true }));

function start(...args: string[]): {
  child: ChildProcess;
  ended: Promise<{ code: number | null; text: string }>;
  said: (text: string) => Promise<void>;
} {
  const child = spawn(join(import.meta.dirname, 'flynn-run'), args, {
    env: { PATH: process.env['PATH'] ?? '', FLYNN_RUN_DIR: dir, PORT: '8080' },
    stdio: ['pipe', 'pipe', 'inherit'],
    timeout: 60_000,
  });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const ended = once(child, 'close').then(([code]) => ({ code: typeof code === 'number' ? code : null, text }));
  const said = async (wanted: string): Promise<void> => {
    while (!text.includes(wanted)) await once(child.stdout, 'data', { signal: AbortSignal.timeout(60_000) });
  };
  return { child, ended, said };
}

const lines: [string, string][] = [
  ['echo $PORT', '8080\n'],
  ['echo ${PORT}', '8080\n'],
  ['A=1 B="two words" env | grep -E "^[AB]=" | sort', 'A=1\nB=two words\n'],
  ['A=1 printenv A', '1\n'],
  ['echo one && echo two; echo three', 'one\ntwo\nthree\n'],
  ['echo "$FROM_PROFILE"', 'of the profile\n'],
  ['echo "$LAST"', 'after of the profile\n'],
  ['echo $(pwd)', 'DIR\n'],
  ['echo a > file.txt; cat file.txt', 'a\n'],
];
for (const [line, expected] of lines) {
  test(`the line ${line} is run as a shell does`, async () => {
    const { code, text } = await start(line).ended;
    assert.deepEqual({ code, text }, { code: 0, text: expected.replace('DIR', dir) });
  });
}

test('several arguments are a program with exactly these arguments', async () => {
  assert.equal((await start('printf', '%s|', '$PORT', 'a b').ended).text, '$PORT|a b|');
});

test('exit codes come through, of simple and of composed lines', async () => {
  assert.equal((await start('bash -c "exit 7"').ended).code, 7);
  assert.equal((await start('true && exit 7').ended).code, 7);
  assert.equal((await start().ended).code, 64);
});

test('input reaches the program, of simple and of composed lines', async () => {
  for (const line of ['cat', 'true && cat']) {
    const { child, ended } = start(line);
    child.stdin?.end('typed');
    assert.equal((await ended).text, 'typed');
  }
});

test('a simple command takes the place of the shell and gets its signals', async () => {
  await writeFile(
    join(dir, 'wait.js'),
    "process.on('SIGTERM', () => process.exit(3)); setInterval(() => {}, 99); console.log('up', process.pid);",
  );
  const { child, ended, said } = start(`NAME=value ${process.execPath} wait.js`);
  await said('up');
  child.kill('SIGTERM');
  assert.deepEqual(await ended, { code: 3, text: `up ${child.pid}\n` });
});

test('signals reach every program of a composed line, which ends with them', async () => {
  const program = "process.on('SIGTERM', () => { require('fs').writeFileSync('told', ''); process.exit(0); });";
  await writeFile(join(dir, 'note.js'), `${program} setInterval(() => {}, 99); console.log('up');`);
  const { child, ended, said } = start(`${process.execPath} note.js | cat; sleep 60`);
  await said('up');
  // The shell may not have come to its traps yet.
  const traps = async () => /^SigCgt:\s+(\S+)$/m.exec(await readFile(`/proc/${child.pid}/status`, 'utf8'))?.[1];
  await waitFor(async () => (BigInt(`0x${await traps()}`) & (1n << 14n)) !== 0n, {
    what: 'its traps',
    deadlineMs: 60_000,
  });
  child.kill('SIGTERM');
  assert.notEqual((await ended).code, 0);
  // The shell may be gone before the programs it started have done what they do at the end.
  await waitFor(
    async () => {
      await access(join(dir, 'told'));
      return true;
    },
    { what: 'the program to be told', deadlineMs: 60_000 },
  );
});
