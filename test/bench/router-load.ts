/** Load by wrk and h2load, bounded in time, and what each request of it cost the proxy in processor time. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { FlynnError } from '@flynn/kit/errors';
import { figure, median, type Figure } from './figure.ts';
import { host, tlsName } from './router-stage.ts';
import type { Proxy, Stage } from './router-stage.ts';

const run = promisify(execFile);

export type Load = {
  name: string;
  path: string;
  connections: number;
  headers?: Record<string, string>;
  isTls?: boolean;
  /** Posted with every request. */
  bodyBytes?: number;
  must: string;
};

/** Uncounted, before the rounds that are: the first requests of a kind are the compiler's, some sixty thousand of them. */
export const warmRounds = 3;

export type Measured = { requests: number; failures: number };

/** One run against one port. An answer that is not a 2xx, and a connection that breaks, are failures. */
export async function wrk(stage: Stage, port: number, load: Load, seconds: number): Promise<Measured> {
  const headers = { Host: load.isTls === true ? tlsName : host, ...load.headers };
  const script = join(stage.dir, 'post.lua');
  if (load.bodyBytes !== undefined) {
    await writeFile(script, `wrk.method = "POST"\nwrk.body = string.rep("x", ${load.bodyBytes})\n`);
  }
  const [program, ...args] = stage.toolbox.command([
    'wrk',
    '--threads=1',
    `--connections=${load.connections}`,
    `--duration=${seconds}s`,
    '--timeout=10s',
    ...Object.entries(headers).map(([name, value]) => `--header=${name}: ${value}`),
    ...(load.bodyBytes === undefined ? [] : [`--script=${script}`]),
    load.isTls === true ? `https://${tlsName}:${port}${load.path}` : `http://127.0.0.1:${port}${load.path}`,
  ]);
  const { stdout } = await run(program, args, { timeout: (seconds + 30) * 1_000 });
  const [, requests] = /(\d+) requests in/.exec(stdout) ?? [];
  if (requests === undefined) throw new FlynnError('internal', `wrk says something else:\n${stdout}`);
  const [, refused = 0] = /Non-2xx or 3xx responses: (\d+)/.exec(stdout) ?? [];
  const [, ...broken] = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(stdout) ?? [];
  return {
    requests: Number(requests),
    failures: Number(refused) + broken.reduce((sum, count) => sum + Number(count), 0),
  };
}

/** Over TLS: HTTP/2 with ten streams at once on each connection, or one request of HTTP/1.1 on each, with a handshake in full. */
export async function h2load(
  stage: Stage,
  port: number,
  load: Load,
  { requests, protocol }: { requests: number; protocol: 'h2' | 'http/1.1' },
): Promise<Measured> {
  const [program, ...args] = stage.toolbox.command([
    'h2load',
    `--requests=${requests}`,
    ...(protocol === 'h2'
      ? [`--clients=${load.connections}`, '--max-concurrent-streams=10']
      : ['--h1', `--clients=${requests}`]),
    `--connect-to=127.0.0.1:${port}`,
    `https://${host}:${port}${load.path}`,
  ]);
  const { stdout } = await run(program, args, { timeout: 120_000 });
  const [, spoken] = /Application protocol: (\S+)/.exec(stdout) ?? [];
  const [, succeeded] = /(\d+) 2xx/.exec(stdout) ?? [];
  if (succeeded === undefined || spoken !== protocol) {
    throw new FlynnError('internal', `h2load says something else:\n${stdout}`);
  }
  return { requests, failures: requests - Number(succeeded) };
}

export function portFor(proxy: Proxy, load: Load): number {
  return load.isTls === true ? proxy.tlsPort : proxy.port;
}

/** Microseconds of processor time of the proxy for each request of one run. */
export async function costUs(proxy: Proxy, load: () => Promise<Measured>): Promise<number> {
  const before = proxy.cpuSeconds();
  const { requests, failures } = await load();
  if (failures > 0) throw new FlynnError('internal', `${failures} of ${requests} requests to ${proxy.name} failed`);
  return ((proxy.cpuSeconds() - before) * 1e6) / requests;
}

/** Each proxy in turn, round after round, so that what the machine does meanwhile befalls all of them. */
export async function interleaved(
  proxies: readonly Proxy[],
  rounds: number,
  measure: (proxy: Proxy) => Promise<number>,
): Promise<Map<string, number>> {
  const values = new Map<string, number[]>(proxies.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const proxy of proxies) values.get(proxy.name)?.push(await measure(proxy));
  }
  return new Map([...values].map(([name, of]) => [name, median(of)]));
}

/** Ours against nginx's, and HAProxy's against nginx's beside it. */
export async function compareLoad(
  stage: Stage,
  load: Load,
  options: { rounds: number; say: (proxy: Proxy) => Promise<Measured> },
): Promise<Figure[]> {
  const costs = await interleaved([stage.nginx, stage.haproxy, stage.flynn], options.rounds, (proxy) =>
    costUs(proxy, () => options.say(proxy)),
  );
  return comparison(load.name, costs, { floor: stage.nginx.name, must: load.must });
}

/** All but the one that is the floor, against it. */
export function comparison(
  name: string,
  costs: ReadonlyMap<string, number>,
  { floor, must }: { floor: string; must: string },
): Figure[] {
  const floorUs = costs.get(floor);
  return [...costs]
    .filter(([proxy]) => proxy !== floor)
    .map(([proxy, value]) =>
      figure({
        name: `${name}: ${proxy}`,
        value,
        unit: 'us',
        ...(floorUs === undefined ? {} : { floor: floorUs }),
        ...(proxy === 'flynn' ? { must } : {}),
      }),
    );
}
