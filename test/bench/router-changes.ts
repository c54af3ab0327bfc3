/** What changes cost: a backend that comes, a thousand changes under load, a hundred thousand routes, ten thousand idle clients. */
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { startPlane } from '@flynn/router/hostile/router-process';
import { figure, type Figure } from './figure.ts';
import { costUs, interleaved, warmRounds, wrk } from './router-load.ts';
import { backendHosts, host } from './router-stage.ts';
import type { Proxy, Stage } from './router-stage.ts';

const tiny = { name: 'tiny', path: '/tiny', connections: 64, must: '' };

/** From discovery's word that a backend is there to the first answer of it, asked for without pause. */
export async function firstRequest(stage: Stage): Promise<Figure[]> {
  const rounds = 300;
  const address = `127.0.0.1:${stage.backendPort}`;
  stage.plane.setRoute({ id: 'probe', domain: 'probe.test', service: 'probe' });
  const client = connect(stage.flynn.port, '127.0.0.1').setNoDelay();
  const statusOf = async () => {
    client.write(`GET /tiny HTTP/1.1\r\nHost: probe.test\r\n\r\n`);
    let answer = '';
    while (!isWhole(answer)) answer += String((await once(client, 'data'))[0]);
    return /^HTTP\/1\.1 (\d+)/.exec(answer)?.[1];
  };
  const until = async (status: string) => {
    while ((await statusOf()) !== status);
  };
  await until('503');
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const startedMs = performance.now();
    stage.plane.up('probe', address);
    await until('200');
    times.push(performance.now() - startedMs);
    stage.plane.down('probe', address);
    await until('503');
  }
  client.destroy();
  stage.plane.removeRoute('probe');
  times.sort((a, b) => a - b);
  const p99 = times[Math.floor(times.length * 0.99)] ?? Number.NaN;
  return [
    figure({ name: 'healthy in discovery to first answer, p99', value: p99, unit: 'ms', must: '<= 50 (aim 10)' }),
  ];
}

function isWhole(answer: string): boolean {
  const headEnd = answer.indexOf('\r\n\r\n');
  const [, length] = /\r\ncontent-length: (\d+)/i.exec(answer) ?? [];
  return headEnd >= 0 && length !== undefined && answer.length >= headEnd + 4 + Number(length);
}

/** Backends come and go, and routes too, while nobody stops asking. */
export async function changesUnderLoad(stage: Stage): Promise<Figure[]> {
  const changes = 1_000;
  const pauseMs = 8;
  const { plane, backendPort } = stage;
  const addresses = backendHosts.map((host) => `${host}:${backendPort}`);
  for (const address of addresses) plane.up('web', address);
  const load = wrk(stage, stage.flynn.port, tiny, Math.ceil((changes * (pauseMs + 2)) / 1_000) + 2);
  for (let n = 0; n < changes; n += 1) {
    const address = addresses[(n >> 1) % addresses.length] ?? '';
    if (n % 2 === 0) plane.down('web', address);
    else plane.up('web', address);
    // The route that is asked for, another, and one more or less.
    if (n % 4 === 0) plane.setRoute({ id: 'r1', domain: host, path: '/' });
    else if (n % 4 === 1) plane.setRoute({ id: 'other', domain: `other-${n}.test` });
    else if (n % 4 === 2) plane.setRoute({ id: `more-${n}`, domain: host, path: `/more-${n}` });
    else plane.removeRoute(`more-${n - 1}`);
    await sleep(pauseMs);
  }
  const { requests, failures } = await load;
  for (const address of addresses.slice(1)) plane.down('web', address);
  plane.removeRoute('other');
  return [
    figure({ name: 'requests while 1,000 backends and 1,000 routes changed', value: requests, unit: '' }),
    figure({ name: 'of these failed', value: failures, unit: '', must: '0' }),
  ];
}

export async function manyRoutes(
  stage: Stage,
  { rounds, seconds }: { rounds: number; seconds: number },
): Promise<Figure[]> {
  const count = 100_000;
  const { plane, url } = await startPlane(stage.owner);
  for (let n = 1; n < count; n += 1) plane.setRoute({ id: `r${n}`, domain: `app-${n}.test` });
  plane.setRoute({ id: 'r0', domain: host });
  plane.up('web', `127.0.0.1:${stage.backendPort}`);
  const many: Proxy = { ...(await stage.startRouter({ planeUrl: url })), name: 'many' };
  const one: Proxy = { ...(await stage.startRouter()), name: 'one' };
  for (let round = 0; round < warmRounds; round += 1) {
    for (const { port } of [many, one]) await wrk(stage, port, tiny, seconds);
  }
  const costs = await interleaved([one, many], rounds, (proxy) =>
    costUs(proxy, () => wrk(stage, proxy.port, tiny, seconds)),
  );
  await Promise.all([many.stop(), one.stop()]);
  return [
    figure({
      name: 'tiny with 100,000 routes, against few',
      value: costs.get('many') ?? Number.NaN,
      unit: 'us',
      floor: costs.get('one') ?? Number.NaN,
      must: '<= 1.1 x (aim 1.02)',
    }),
  ];
}

export async function idleClients(stage: Stage): Promise<Figure[]> {
  const count = 10_000;
  const router = await stage.startRouter();
  const quietMb = router.residentMb();
  const clients: Socket[] = [];
  while (clients.length < count) {
    const group = Array.from({ length: 200 }, () => connect(router.port, '127.0.0.1'));
    await Promise.all(
      group.map(async (client) => {
        client.write(`GET /tiny HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
        await once(client, 'data');
      }),
    );
    clients.push(...group);
  }
  const idleMb = router.residentMb();
  for (const client of clients) client.destroy();
  await router.stop();
  return [
    figure({ name: 'memory with 10,000 idle clients', value: idleMb, unit: 'MB', must: '<= 200 (aim 120)' }),
    figure({ name: 'of that without any', value: quietMb, unit: 'MB' }),
  ];
}
