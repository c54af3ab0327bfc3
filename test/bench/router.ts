/**
 * The router beside nginx and HAProxy: processor time of the proxy's processes for each request, same backend, same run,
 * rounds in turn. `router http changes`: these sections alone; `--seconds=3 --rounds=3` is how long and how often.
 */
import { parseArgs } from 'node:util';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Bench } from './bench.ts';
import type { Figure } from './figure.ts';
import { changesUnderLoad, firstRequest, idleClients, manyRoutes } from './router-changes.ts';
import { latency } from './router-latency.ts';
import { compareLoad, comparison, costUs, h2load, interleaved, portFor, warmRounds, wrk } from './router-load.ts';
import type { Load, Measured } from './router-load.ts';
import { openStage } from './router-stage.ts';
import type { Proxy, Stage } from './router-stage.ts';
import { workers } from './router-workers.ts';

type Options = { rounds: number; seconds: number };

const keepAlive = '<= 1.5 x (aim 1.0)';
const httpLoads: readonly Load[] = [
  { name: 'tiny, 64 connections', path: '/tiny', connections: 64, must: keepAlive },
  { name: 'tiny, 256 connections', path: '/tiny', connections: 256, must: keepAlive },
  { name: '10 KB, 64 connections', path: '/10k', connections: 64, must: keepAlive },
  { name: '10 KB, 256 connections', path: '/10k', connections: 256, must: keepAlive },
  { name: 'POST 100 KB', path: '/post', connections: 64, bodyBytes: 100_000, must: '<= 1.0 x (aim 0.6)' },
  { name: '1 MB', path: '/1m', connections: 64, must: '<= 2.0 x (aim 1.2)' },
  {
    name: 'connection per request',
    path: '/tiny',
    connections: 64,
    headers: { Connection: 'close' },
    must: '<= 2.5 x (aim 1.5)',
  },
];

const tlsLoads: readonly Load[] = [
  { name: 'TLS, tiny', path: '/tiny', connections: 64, isTls: true, must: '<= 1.4 x (aim 0.9)' },
];

/** wrk would take its sessions up again. */
const handshakes: readonly Load[] = [
  { name: 'TLS, new connection each', path: '/tiny', connections: 0, must: '<= 1.4 x (aim 1.1)' },
];
const handshakeCount = 1_500;
/** Some twenty thousand connections: so many it takes until none costs less than those before. */
const handshakeWarmRounds = 14;

const http2Loads: readonly Load[] = [
  { name: 'HTTP/2, tiny', path: '/tiny', connections: 64, must: '<= 2.5 x (aim 1.7)' },
  { name: 'HTTP/2, 10 KB', path: '/10k', connections: 64, must: '<= 2.0 x (aim 1.4)' },
];
/** About a second and a half of ours. */
const http2Requests = 30_000;

async function compareAll(
  stage: Stage,
  loads: readonly Load[],
  { rounds, warm = warmRounds }: { rounds: number; warm?: number },
  say: (proxy: Proxy, load: Load) => Promise<Measured>,
): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const load of loads) {
    process.stderr.write(`${load.name} …\n`);
    for (let round = 0; round < warm; round += 1) await say(stage.flynn, load);
    figures.push(...(await compareLoad(stage, load, { rounds, say: (proxy) => say(proxy, load) })));
  }
  return figures;
}

function overHttp1(stage: Stage, loads: readonly Load[], { rounds, seconds }: Options): Promise<Figure[]> {
  return compareAll(stage, loads, { rounds }, (proxy, load) => wrk(stage, portFor(proxy, load), load, seconds));
}

const sections: Readonly<Record<string, (stage: Stage, options: Options) => Promise<Figure[]>>> = {
  http: (stage, options) => overHttp1(stage, httpLoads, options),
  tls: async (stage, options) => [
    ...(await overHttp1(stage, tlsLoads, options)),
    ...(await compareAll(stage, handshakes, { rounds: options.rounds, warm: handshakeWarmRounds }, (proxy, load) =>
      h2load(stage, proxy.tlsPort, load, { requests: handshakeCount, protocol: 'http/1.1' }),
    )),
  ],
  http2: (stage, { rounds }) =>
    compareAll(stage, http2Loads, { rounds }, (proxy, load) =>
      h2load(stage, proxy.tlsPort, load, { requests: http2Requests, protocol: 'h2' }),
    ),
  tcp: async (stage, { rounds, seconds }) => {
    const load: Load = { name: 'TCP route, 1 MB', path: '/1m', connections: 64, must: '' };
    const ports = new Map([
      [stage.flynn.name, stage.tcp.flynn],
      [stage.haproxy.name, stage.tcp.haproxy],
    ]);
    const costs = await interleaved([stage.haproxy, stage.flynn], rounds, (proxy) =>
      costUs(proxy, () => wrk(stage, ports.get(proxy.name) ?? 0, load, seconds)),
    );
    return comparison(load.name, costs, { floor: stage.haproxy.name, must: '<= 2.0 x (aim 1.3)' });
  },
  latency,
  routes: manyRoutes,
  changes: async (stage) => [...(await firstRequest(stage)), ...(await changesUnderLoad(stage))],
  idle: idleClients,
  workers,
};

export const bench: Bench = {
  needs: 'nothing',
  run: async (args) => {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { rounds: { type: 'string', default: '3' }, seconds: { type: 'string', default: '3' } },
    });
    const wanted = positionals.length > 0 ? positionals : Object.keys(sections);
    const unknown = wanted.find((name) => !(name in sections));
    if (unknown !== undefined) {
      throw new FlynnError('invalid', `no section "${unknown}"; there are ${Object.keys(sections).join(', ')}`);
    }
    const options = { rounds: Number(values.rounds), seconds: Number(values.seconds) };
    const figures: Figure[] = [];
    await using stage = await openStage();
    for (const name of wanted) {
      try {
        figures.push(...((await sections[name]?.(stage, options)) ?? []));
      } catch (error) {
        // What the others measured is worth having.
        process.stderr.write(`${name} has no figures: ${messageOf(error)}\n`);
        process.exitCode = 1;
      }
    }
    return figures;
  },
};
