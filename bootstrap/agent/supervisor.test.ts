import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { installedProgram, isAgent } from '@flynn/host-agent/agent-process';
import { waitFor } from '@flynn/kit/retry';
import { commandOf, findProcesses } from '@flynn/kit/processes';
import { hasSupervisor, isSupervised, startSupervisor, stopSupervised } from './supervisor.ts';

let state = '';
const log = () => readFile(join(state, 'agent.log'), 'utf8').catch(() => '');
const untilLogged = (pattern: RegExp) =>
  waitFor(async () => pattern.test(await log()), { what: String(pattern), deadlineMs: 30_000 });
const pidIn = async (file: string) => Number(await readFile(join(state, file), 'utf8'));

beforeEach(async () => {
  state = await mkdtemp(join(tmpdir(), 'flynn-supervisor-'));
  await writeFile(join(state, 'agent.env'), '');
  const program = installedProgram(state);
  await mkdir(dirname(program), { recursive: true });
  await writeFile(
    program,
    `for (const [signal, word] of [['SIGTERM', 'for good'], ['SIGUSR2', 'to be back']])
       process.on(signal, () => { console.log(word); process.exit(0); });
     console.log('runs');
     setInterval(() => {}, 1_000);`,
  );
});

afterEach(async () => {
  await stopSupervised(state);
  await rm(state, { recursive: true });
});

test('an agent is started, has another take its place, and is stopped for good', { timeout: 90_000 }, async () => {
  assert.equal(await stopSupervised(state), false);
  await startSupervisor(state, process.execPath);
  assert.equal(await isSupervised(state), true);
  await untilLogged(/^runs\n/);
  await startSupervisor(state, process.execPath);
  await untilLogged(/^runs\nto be back\nruns\n$/);
  assert.equal(await stopSupervised(state), true);
  assert.match(await log(), /for good\n$/);
  assert.equal(await isSupervised(state), false);
});

test('what a supervisor that went with the power has left is taken away once none runs', async () => {
  await writeFile(join(state, 'agent.pid'), '99999999\n');
  assert.equal(await stopSupervised(state), false);
  assert.equal(hasSupervisor(state), false);
});

test('one whose supervisor was killed is stopped, too', { timeout: 90_000 }, async () => {
  await startSupervisor(state, process.execPath);
  await untilLogged(/^runs\n/);
  const [supervisor, agent] = [await pidIn('agent.pid'), await pidIn('agent.child')];
  process.kill(supervisor, 'SIGKILL');
  await waitFor(async () => !(await isSupervised(state)), { what: 'the supervisor to be gone', deadlineMs: 30_000 });
  assert.notDeepEqual(await commandOf(agent), []);
  assert.equal(await stopSupervised(state), true);
  assert.deepEqual(await commandOf(agent), []);
  assert.match(await log(), /for good\n$/);
});

test(
  'those whose pids a full disk has no room for are not started twice, and are stopped',
  { timeout: 90_000 },
  async () => {
    const program = installedProgram(state);
    await writeFile(program, `process.on('SIGTERM', () => process.exit(0)); setInterval(() => {}, 1_000);`);
    // Files can be opened and emptied, and nothing can be written into them.
    const line = `trap '' XFSZ; ulimit -f 0; exec sh "$@"`;
    const script = join(import.meta.dirname, '../supervise');
    const start = () =>
      spawn('sh', ['-c', line, 'sh', script, state, process.execPath, program], { stdio: 'ignore', detached: true });
    const agents = () => findProcesses((command) => isAgent(command, state));
    const child = start();
    child.unref();
    await waitFor(async () => (await agents()).length === 1, { what: 'the agent', deadlineMs: 30_000 });
    assert.equal(await isSupervised(state), true);
    await startSupervisor(state, process.execPath);
    await waitFor(async () => (await agents()).length === 1, { what: 'one agent alone', deadlineMs: 30_000 });
    assert.notEqual(await pidIn('agent.pid'), child.pid);
    process.kill(await pidIn('agent.pid'), 'SIGKILL');
    await waitFor(async () => !(await isSupervised(state)), { what: 'the supervisor to be gone', deadlineMs: 30_000 });
    // Its supervisor may have been killed before it wrote it.
    await rm(join(state, 'agent.child'), { force: true });
    assert.equal(await stopSupervised(state), true);
    assert.deepEqual(await agents(), []);
  },
);
