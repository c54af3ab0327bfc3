/** For tests: a router between clients and backends that are all hostile, in every combination of protocols. */
import { systemClock } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import { seeded } from '../policy/testing.ts';
import { setUp, startBackend } from '../testing.ts';
import type { Owner } from '../testing.ts';
import { startH2cStorm, startHttp1Storm } from './storm-backends.ts';
import { visit } from './storm-clients.ts';
import type { Door } from './storm-clients.ts';
import { chance, of } from './storm-words.ts';
import { talk } from './talk.ts';

/** All of them soon: what is done when they are over is done in the storm. */
const timeouts = { dialMs: 200, firstByteMs: 200, idleMs: 200 };
const lanesEach = 4;
const patienceMs = 30_000;

/**
 * Clients come until it is over; then nothing is under way any more, and somebody well is answered. Answers how many came. What is
 * thrown in a callback meanwhile is for the caller to hear of.
 */
export async function storm(t: Owner, options: { seed: number; isOver: (visits: number) => boolean }): Promise<number> {
  const { seed, isOver } = options;
  const tls = { port: 0, profile: 'modern' } as const;
  const { plane, router, port } = await setUp(t, timeouts, undefined, { tls, routesDeadlineMs: 100 });
  const limits = { bodyBytes: 50_000 };
  plane.setRoute({ id: 'h2c', domain: 'h2c.test', service: 'h2c', http: { protocol: 'h2c' } });
  plane.setRoute({ id: 'kept', domain: 'kept.test', http: { bufferBytes: 65_536, limits } });
  plane.setRoute({
    id: 'kept-h2c',
    domain: 'kept-h2c.test',
    service: 'h2c',
    http: { protocol: 'h2c', bufferBytes: 4_096, limits },
  });
  plane.setRoute({ id: 'well', domain: 'well.test', service: 'well' });
  plane.up('well', (await startBackend(t, (_request, response) => response.end('well'))).address);
  const backends: { service: string; address: string }[] = [];
  for (let i = 0; i < 3; i += 1) {
    backends.push({ service: 'web', address: (await startHttp1Storm(t, seeded(seed + i))).address });
    backends.push({ service: 'h2c', address: (await startH2cStorm(t, seeded(seed + i))).address });
  }
  for (const { service, address } of backends) plane.up(service, address);
  await waitFor(() => router.status().backends.length > backends.length, {
    what: 'all backends',
    deadlineMs: patienceMs,
  });

  let visits = 0;
  const lane = async (door: Door, dice: () => number) => {
    while (!isOver(visits)) {
      visits += 1;
      await visit(door, of(dice, ['app.test', 'h2c.test', 'kept.test', 'kept-h2c.test', 'nobody.test']), dice);
    }
  };
  const doors: Door[] = (['http/1.1', 'h2'] as const).flatMap((protocol) => [
    { port, isTls: false, protocol },
    { port: router.httpsPort ?? 0, isTls: true, protocol },
  ]);
  const dice = seeded(seed);
  // Backends come and go, and nobody is left out for long.
  const change = async () => {
    while (!isOver(visits)) {
      const { service, address } = of(dice, [backends[0] ?? { service: 'web', address: '' }, ...backends]);
      if (chance(dice, 0.5)) plane.down(service, address);
      await systemClock.sleep(50);
      plane.up(service, address);
    }
  };
  const lanes = doors.flatMap((door, i) =>
    Array.from({ length: lanesEach }, (_, n) => lane(door, seeded(seed + 100 * i + n))),
  );
  await Promise.all([change(), ...lanes]);
  await waitFor(() => router.status().backends.every(({ inFlight }) => inFlight === 0), {
    what: 'nothing to be under way',
    deadlineMs: patienceMs,
  });
  const asked = 'GET / HTTP/1.1\r\nHost: well.test\r\nConnection: close\r\n\r\n';
  await waitFor(async () => (await talk(port, [asked], { quietMs: patienceMs })).answer.endsWith('well'), {
    what: 'an answer for one who is well',
    deadlineMs: patienceMs,
  });
  return visits;
}
