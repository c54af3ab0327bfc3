import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';

const script = join(import.meta.dirname, 'supervise');
const maxBytes = 10 * 2 ** 20;
let state = '';

beforeEach(async () => {
  state = await mkdtemp(join(tmpdir(), 'flynn-supervise-'));
  await writeFile(join(state, 'agent.env'), '# settings\nFLYNN_NAME=a b\n');
});

afterEach(() => rm(state, { recursive: true }));

/** Supervises a shell script in place of the host agent. */
async function supervise(program: string, env: Readonly<Record<string, string>> = {}, ahead: readonly string[] = []) {
  // Called like node: with two options of its own ahead of the program.
  const node = join(state, 'node');
  await writeFile(node, '#!/bin/sh\nshift 2\nexec sh "$@"\n', { mode: 0o755 });
  await writeFile(join(state, 'program'), program);
  const child = spawn('sh', [...ahead, script, state, node, join(state, 'program')], {
    stdio: 'ignore',
    env: { ...process.env, ...env },
  });
  return { child, ended: once(child, 'exit') };
}

const log = () => readFile(join(state, 'agent.log'), 'utf8').catch(() => '');
const untilLogged = (pattern: RegExp) =>
  waitFor(async () => pattern.test(await log()), { what: String(pattern), deadlineMs: 30_000 });

test(
  'what ends is told and started again; a signal reaches it, and is the end of both',
  { timeout: 90_000 },
  async () => {
    const { child, ended } = await supervise(`
    [ -e "\${0%/*}/again" ] || { : >"\${0%/*}/again"; exit 7; }
    trap 'echo told to stop; sleep 0.2; echo stopped; exit 0' TERM
    echo "runs with $FLYNN_NAME"
    while :; do sleep 0.05; done`);
    await untilLogged(/runs with a b/);
    assert.match(await log(), /ended with 7; starting it again in 1 s/);
    assert.equal(await readFile(join(state, 'agent.pid'), 'utf8'), `${child.pid}\n`);
    child.kill('SIGTERM');
    await ended;
    assert.match(await log(), /told to stop\nstopped\n$/, 'it was waited for');
    assert.equal(existsSync(join(state, 'agent.pid')), false);
  },
);

test('one that had come up is started again at once', { timeout: 90_000 }, async () => {
  // A clock by which every run takes a minute.
  await writeFile(
    join(state, 'date'),
    `#!/bin/sh\nn=$(($(cat ${state}/clock 2>/dev/null || echo 0) + 60)); echo $n | tee ${state}/clock\n`,
    { mode: 0o755 },
  );
  const { child, ended } = await supervise(
    '[ -e "${0%/*}/again" ] || { : >"${0%/*}/again"; exit 7; }; trap "exit 0" TERM; echo runs; while :; do sleep 0.05; done',
    { PATH: `${state}:${process.env['PATH']}` },
  );
  await untilLogged(/runs\n/);
  assert.match(await log(), /ended with 7; starting it again in 0 s/);
  child.kill('SIGTERM');
  await ended;
});

test('a log that is too long is put aside before a start', { timeout: 90_000 }, async () => {
  await writeFile(join(state, 'agent.log'), 'x'.repeat(maxBytes + 1));
  const { child, ended } = await supervise("trap 'exit 0' TERM; echo runs; while :; do sleep 0.05; done");
  await untilLogged(/^runs\n/);
  assert.equal((await stat(join(state, 'agent.log.1'))).size, maxBytes + 1);
  child.kill('SIGTERM');
  await ended;
});

test(
  'an agent whose supervisor gives way to another one is told that it is to be back',
  { timeout: 90_000 },
  async () => {
    const said = `trap 'echo for good; exit 0' TERM; trap 'echo to be back; exit 0' USR2; echo runs; while :; do sleep 0.05; done`;
    await writeFile(join(state, 'agent.return'), 'left by one that is gone');
    const first = await supervise(said);
    await untilLogged(/runs\n/);
    assert.equal(existsSync(join(state, 'agent.return')), false);
    await writeFile(join(state, 'agent.return'), '');
    first.child.kill('SIGTERM');
    await first.ended;
    assert.match(await log(), /to be back\n$/);

    const second = await supervise(said);
    await untilLogged(/runs\n[^]*runs\n/);
    second.child.kill('SIGTERM');
    await second.ended;
    assert.match(await log(), /for good\n$/);
  },
);

test('an agent whose supervisor was killed gives way to that of the next one', { timeout: 90_000 }, async () => {
  const said = `trap 'echo to be back; exit 0' USR2; trap 'exit 0' TERM; echo "runs as $$"; while :; do sleep 0.05; done`;
  const first = await supervise(said);
  await untilLogged(/runs as/);
  // The agent may say so before its supervisor has written down which it is.
  await waitFor(async () => /^\d+\n/.test(await readFile(join(state, 'agent.child'), 'utf8').catch(() => '')), {
    what: 'the pid of the agent',
    deadlineMs: 30_000,
  });
  first.child.kill('SIGKILL');
  await first.ended;
  const second = await supervise(said);
  await untilLogged(/runs as \d+\nsupervise: the host agent \d+ was left [^\n]*\nto be back\nruns as/);
  second.child.kill('SIGTERM');
  await second.ended;
});

/** Files can be opened and emptied, and nothing can be written into them: as on a full disk. */
const onFullDisk = ['-c', `trap '' XFSZ; ulimit -f 0; exec sh "$@"`, 'sh'];

test(
  'on a full disk what was written down stays, and the next one finds the agent all the same',
  { timeout: 90_000 },
  async () => {
    const said = `trap 'mkdir "\${0%/*}/back"; exit 0' USR2; trap 'exit 0' TERM; mkdir "\${0%/*}/runs"; while :; do sleep 0.05; done`;
    await writeFile(join(state, 'agent.pid'), '1\n');
    await writeFile(join(state, 'agent.child'), '1\n');
    const first = await supervise(said, {}, onFullDisk);
    await waitFor(() => existsSync(join(state, 'runs')), { what: 'the agent', deadlineMs: 30_000 });
    assert.equal(await readFile(join(state, 'agent.pid'), 'utf8'), '1\n');
    assert.equal(await readFile(join(state, 'agent.child'), 'utf8'), '1\n');
    first.child.kill('SIGKILL');
    await first.ended;
    const second = await supervise("trap 'exit 0' TERM; echo runs; while :; do sleep 0.05; done");
    await untilLogged(/was left without a supervisor[^\n]*\nruns\n/);
    assert.ok(existsSync(join(state, 'back')), 'the first was told that it is to be back');
    second.child.kill('SIGTERM');
    await second.ended;
  },
);

test('a pid that has passed on to another program is nobody’s agent', { timeout: 90_000 }, async () => {
  const other = spawn('sleep', ['60'], { stdio: 'ignore' });
  await writeFile(join(state, 'agent.child'), `${other.pid}\n`);
  const { child, ended } = await supervise("trap 'exit 0' TERM; echo runs; while :; do sleep 0.05; done");
  await untilLogged(/^runs\n/);
  assert.equal(other.exitCode, null);
  other.kill();
  child.kill('SIGTERM');
  await ended;
});

test(
  'the pid of an agent before a boot that is the supervisor’s own now is nobody’s either',
  { timeout: 90_000 },
  async () => {
    const node = join(state, 'node');
    await writeFile(node, '#!/bin/sh\nshift 2\nexec sh "$@"\n', { mode: 0o755 });
    await writeFile(join(state, 'program'), "trap 'exit 0' TERM; echo runs; while :; do sleep 0.05; done");
    const line = 'echo $$ >"$1/agent.child"; exec sh "$0" "$1" "$1/node" "$1/program"';
    const child = spawn('sh', ['-c', line, script, state], { stdio: 'ignore' });
    const ended = once(child, 'exit');
    await untilLogged(/^runs\n/);
    child.kill('SIGTERM');
    await ended;
    assert.equal(existsSync(join(state, 'agent.child')), false);
  },
);
