/** What a proxy adds to the slowest hundredth of answers when it is half as busy as it can be. */
import { execFile } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { FlynnError } from '@flynn/kit/errors';
import { figure, median, type Figure } from './figure.ts';
import { warmRounds, wrk } from './router-load.ts';
import { host } from './router-stage.ts';
import type { Stage } from './router-stage.ts';

const run = promisify(execFile);
const connections = 64;
/** A stall of the machine for some milliseconds is the slowest hundredth of a round: there are more of them than of others. */
const roundsForOne = 3;

/** Requests that come when they are due, whether those before were answered or not. */
async function p99Ms(stage: Stage, port: number, perSecond: number, seconds: number): Promise<number> {
  const log = join(stage.dir, 'latency.log');
  await rm(log, { force: true });
  const [program, ...args] = stage.toolbox.command([
    'h2load',
    '--h1',
    `--clients=${connections}`,
    `--rps=${Math.max(1, Math.round(perSecond / connections))}`,
    `--requests=${Math.round(perSecond * seconds)}`,
    `--log-file=${log}`,
    // With `--header` it would say Host twice, which is refused.
    `--connect-to=127.0.0.1:${port}`,
    `http://${host}:${port}/tiny`,
  ]);
  await run(program, args, { timeout: (seconds + 30) * 1_000 });
  // When it began, its status, how long it took: microseconds.
  const answers = (await readFile(log, 'utf8'))
    .trim()
    .split('\n')
    .map((line) => line.split('\t').map(Number));
  const bad = answers.find(([, status]) => status !== 200);
  if (bad !== undefined) throw new FlynnError('internal', `port ${port} answered with ${bad[1]}`);
  const times = answers.map(([, , us = NaN]) => us).toSorted((a, b) => a - b);
  const slow = times[Math.floor(times.length * 0.99)];
  if (slow === undefined || Number.isNaN(slow)) throw new FlynnError('internal', 'h2load wrote no times');
  return slow / 1_000;
}

export async function latency(
  stage: Stage,
  { rounds, seconds }: { rounds: number; seconds: number },
): Promise<Figure[]> {
  const tiny = { name: 'tiny', path: '/tiny', connections, must: '' };
  const targets = [
    { name: 'none', port: stage.backendPort },
    { name: 'nginx', port: stage.nginx.port },
    { name: 'HAProxy', port: stage.haproxy.port },
    { name: 'flynn', port: stage.flynn.port },
  ];
  // The same for all: half of what ours can do, so that nobody is measured in a queue of its own making.
  const { requests } = await wrk(stage, stage.flynn.port, tiny, 3);
  const perSecond = requests / 3 / 2;
  // At this pace, as what is measured: ours grows its heap for it first.
  for (let round = 0; round < warmRounds; round += 1) await p99Ms(stage, stage.flynn.port, perSecond, seconds);
  const times = new Map<string, number[]>(targets.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds * roundsForOne; round += 1) {
    for (const { name, port } of targets) times.get(name)?.push(await p99Ms(stage, port, perSecond, seconds));
  }
  const medianOf = (name: string) => median(times.get(name) ?? []);
  const bare = medianOf('none');
  const added = (name: string) => Math.max(0, medianOf(name) - bare);
  const rate = `p99 that is added at ${Math.round(perSecond)}/s`;
  return [
    figure({ name: `${rate}: HAProxy`, value: added('HAProxy'), unit: 'ms', floor: added('nginx') }),
    figure({
      name: `${rate}: flynn`,
      value: added('flynn'),
      unit: 'ms',
      floor: added('nginx'),
      must: '<= 1.5 x (aim 1.1)',
    }),
  ];
}
