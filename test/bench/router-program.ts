/** Programs under load beside our router: found on this machine or in the tests' image; their processor time is counted. */
import { execFile, spawn } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { connect } from 'node:net';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { FlynnError } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import { waitFor } from '@flynn/kit/retry';
import { testLabel } from '@flynn/kit/testing-label';
import { ensureTestImages } from '../images.ts';

const run = promisify(execFile);
/** What one tick of /proc/PID/stat is everywhere Linux runs. */
const ticksPerSecond = 100;

/** Turns a command into one that can be run here: as it is, or in a container of the tests' image on the host's network. */
export type Toolbox = {
  command(argv: readonly string[], name?: string): [string, ...string[]];
  /** The program's own process, behind whatever carries it. */
  pidOf(childPid: number, name: string): Promise<number>;
};

/** `sharedDir` is where the programs' files are. */
export async function openToolbox(programs: readonly string[], sharedDir: string): Promise<Toolbox> {
  const isHere = await Promise.all(programs.map(isOnPath));
  if (isHere.every(Boolean)) {
    return { command: ([program = '', ...args]) => [program, ...args], pidOf: async (childPid) => childPid };
  }
  const image = (await ensureTestImages())['FLYNN_TEST_PROXIES_IMAGE'] ?? '';
  const options = [
    '--rm',
    // A first process is told to end in vain if it does not listen for it.
    '--init',
    '--network=host',
    `--label=${testLabel}`,
    '--ulimit=nofile=20000',
    `-v=${sharedDir}:${sharedDir}`,
  ];
  return {
    command: (argv, name = `flynn-bench-${shortId()}`) => [
      'docker',
      'run',
      `--name=${name}`,
      ...options,
      image,
      ...argv,
    ],
    pidOf: (_childPid, name) =>
      waitFor(
        async () => Number((await run('docker', ['inspect', '--format={{.State.Pid}}', name])).stdout) || undefined,
        { what: `the container ${name}`, deadlineMs: 20_000 },
      ),
  };
}

async function isOnPath(program: string): Promise<boolean> {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const found = await Promise.all(
    folders.map((folder) =>
      access(join(folder, program)).then(
        () => true,
        () => false,
      ),
    ),
  );
  return found.includes(true);
}

export type Running = {
  readonly pid: number;
  /** Of all its processes until now. */
  cpuSeconds(): number;
  residentMb(): number;
  stop(): Promise<void>;
};

/** Resolves when the ports take connections. What it writes to its standard error comes with the error if it ends before. */
export async function startProgram(
  toolbox: Pick<Toolbox, 'command' | 'pidOf'>,
  argv: readonly string[],
  options: { ports: readonly number[]; env?: Record<string, string> },
): Promise<Running> {
  const name = `flynn-bench-${shortId()}`;
  const [program, ...args] = toolbox.command(argv, name);
  const child = spawn(program, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env['PATH'], ...options.env },
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  let said = '';
  child.stderr.on('data', (chunk) => (said = (said + String(chunk)).slice(-2_000)));
  child.once('error', (error) => (said += error.message));
  const isReady = async () => {
    if (child.exitCode !== null || child.pid === undefined) return 'ended';
    return (await Promise.all(options.ports.map(canConnect))).every(Boolean);
  };
  const state = await waitFor(isReady, {
    what: `${argv[0]} on port ${options.ports.join(' and ')}`,
    deadlineMs: 30_000,
  }).catch(() => 'late');
  if (state !== true) {
    child.kill('SIGKILL');
    throw new FlynnError('internal', `${argv[0]} does not take connections: ${said || state}`);
  }
  const pid = await toolbox.pidOf(child.pid ?? 0, name);
  return {
    pid,
    cpuSeconds: () => treeOf(pid).reduce((sum, each) => sum + cpuSecondsOf(each), 0),
    residentMb: () => treeOf(pid).reduce((sum, each) => sum + residentMbOf(each), 0),
    async stop() {
      child.kill('SIGTERM');
      const forced = setTimeout(() => child.kill('SIGKILL'), 5_000);
      await ended;
      clearTimeout(forced);
    },
  };
}

function canConnect(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(port, '127.0.0.1');
  socket.once('connect', () => resolve(true));
  socket.once('error', () => resolve(false));
  return promise.finally(() => socket.destroy());
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // A process that ended between being listed and being read.
    return '';
  }
}

/** Behind the name in brackets, which may hold anything: state, parent, … */
function statOf(pid: number): string[] {
  return read(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ') ?? [];
}

function treeOf(root: number): number[] {
  const children = Map.groupBy(
    readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number),
    (pid) => Number(statOf(pid)[1]),
  );
  const tree = [root];
  for (let i = 0; i < tree.length; i += 1) tree.push(...(children.get(tree[i] ?? 0) ?? []));
  return tree;
}

/** With what its children that have ended used. */
function cpuSecondsOf(pid: number): number {
  const ticks = statOf(pid).slice(11, 15).map(Number);
  return ticks.reduce((sum, each) => sum + each, 0) / ticksPerSecond;
}

function residentMbOf(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(read(`/proc/${pid}/status`))?.[1] ?? 0) / 1_024;
}
