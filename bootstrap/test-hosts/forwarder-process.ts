/** The forwarder as a process of this machine: started, replaced when it is to lead elsewhere, stopped. */
import { spawn } from 'node:child_process';
import { mkdir, open, readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import { waitFor } from '@flynn/kit/retry';
import { commandOf } from '@flynn/kit/processes';
import { z } from 'zod';
import { repository } from '../images/bundle.ts';
import { commands } from '../origin.ts';
import { ownerOf, readListeners } from '../machine/listeners.ts';

const program = join(repository, 'bootstrap/test-hosts/forwarder-main.ts');
const node = join(repository, 'node_modules/.bin/node');
const stateFile = (directory: string): string => join(directory, 'forwarder.json');
const startMs = 15_000;
const stopMs = 30_000;

const stateSchema = z.object({ pid: z.int(), hosts: z.array(z.string()), ports: z.array(z.int()) });

/** Addresses of hosts in the order in which they are tried, and ports that are the same there and here. */
export type Ways = Readonly<{ hosts: readonly string[]; ports: readonly number[] }>;

/** `conflict` naming who has one of the ports, unless it is this directory's own forwarder. */
export async function checkPorts(directory: string, ports: readonly number[]): Promise<void> {
  const running = await readRunning(directory);
  const wanted = new Set(ports.filter((port) => running?.ports.includes(port) !== true));
  const taken = (await readListeners()).find(
    ({ protocol, port, address }) => protocol === 'tcp' && wanted.has(port) && ['*', '127.0.0.1'].includes(address),
  );
  if (taken === undefined) return;
  const owner = (await ownerOf(taken)) ?? 'another program';
  throw new FlynnError(
    'conflict',
    `port ${taken.port}, through which the hosts are reached, is used by ${owner}: stop it, or choose others: FLYNN_HTTP_PORT=8080 FLYNN_GIT_PORT=2223 ${commands.up} -- --hosts N`,
  );
}

export async function ensureForwarder(directory: string, ways: Ways): Promise<'started' | 'running'> {
  const running = await readRunning(directory);
  if (running?.hosts.join() === ways.hosts.join() && running.ports.join() === ways.ports.join()) return 'running';
  await stopForwarder(directory);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const logFile = join(directory, 'forwarder.log');
  await using log = await open(logFile, 'w', 0o600);
  const child = spawn(node, [program], {
    cwd: '/',
    detached: true,
    stdio: ['ignore', log.fd, log.fd],
    env: { PATH: process.env['PATH'], FLYNN_HOSTS: ways.hosts.join(','), FLYNN_PORTS: ways.ports.join(',') },
  });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', reject);
  });
  await writeFileAtomic(stateFile(directory), `${JSON.stringify({ pid: child.pid, ...ways })}\n`);
  try {
    await waitFor(async () => (await Promise.all(ways.ports.map(accepts))).every(Boolean), {
      what: 'the forwarder to the hosts',
      deadlineMs: startMs,
    });
  } catch (error) {
    const lines = (await readFile(logFile, 'utf8')).trim().split('\n').slice(-3).join('\n');
    throw new FlynnError('unavailable', `${messageOf(error)}\n${lines}`, { cause: error });
  }
  child.unref();
  return 'started';
}

/** Whether there was one. */
export async function stopForwarder(directory: string): Promise<boolean> {
  const running = await readRunning(directory);
  if (running !== undefined) {
    process.kill(running.pid, 'SIGTERM');
    await waitFor(async () => !(await isForwarder(running.pid)), {
      what: 'the forwarder to stop',
      deadlineMs: stopMs,
    });
  }
  await rm(stateFile(directory), { force: true });
  return running !== undefined;
}

async function readRunning(directory: string): Promise<z.output<typeof stateSchema> | undefined> {
  const state = await readJsonFile(stateFile(directory), stateSchema);
  return state !== undefined && (await isForwarder(state.pid)) ? state : undefined;
}

/** A pid may have passed on to another program. */
async function isForwarder(pid: number): Promise<boolean> {
  return (await commandOf(pid)).includes(program);
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.once('connect', () => resolve(true));
    socket.once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
