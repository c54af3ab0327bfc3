import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { healthCheckSchema } from '@flynn/scheduler/ports';
import {
  checkedPortsOf,
  failingForMs,
  failingLimitMs,
  isReachable,
  isSteady,
  judge,
  probe,
  unknownVerdict,
  untilRefused,
  waitMs,
} from './health.ts';
import { jobOf } from '../host-fixture.ts';

/** `+` is a good answer, `-` a bad one; the verdict after each is `U`p or `d`own. */
function verdicts(answers: string, threshold: number): string {
  let verdict = unknownVerdict;
  return answers
    .split('')
    .map((answer) => {
      verdict = judge(verdict, answer === '+', threshold);
      return verdict.isUp ? 'U' : 'd';
    })
    .join('');
}

for (const { answers, threshold, expected } of [
  { answers: '+', threshold: 3, expected: 'U' },
  { answers: '---+', threshold: 2, expected: 'dddU' },
  { answers: '+-+-+', threshold: 2, expected: 'UUUUU' },
  { answers: '+--', threshold: 2, expected: 'UUd' },
  { answers: '+--+-++', threshold: 2, expected: 'UUddddU' },
  { answers: '+-+', threshold: 1, expected: 'UdU' },
]) {
  test(`answers ${answers} with threshold ${threshold} are judged ${expected}`, () => {
    assert.equal(verdicts(answers, threshold), expected);
  });
}

test('a job that comes up is looked at ten times a second, one that was up at its interval', () => {
  const check = healthCheckSchema.parse({ type: 'tcp', intervalMs: 5_000 });
  const up = { ...unknownVerdict, hasBeenUp: true };
  assert.equal(waitMs(unknownVerdict, check, 123), 100);
  assert.equal(waitMs(up, check, 2_500), 5_000);
  assert.equal(waitMs(up, { ...check, intervalMs: 300 }, 123), 300);
});

test('checks of jobs that are up fall on one beat, and stay on it', () => {
  const check = healthCheckSchema.parse({ type: 'tcp', intervalMs: 2_000 });
  const up = { ...unknownVerdict, hasBeenUp: true };
  for (const nowMs of [7_100, 7_249, 6_751.4, 7_003]) assert.equal(nowMs + waitMs(up, check, nowMs), 9_000);
});

test('a port that has accepted fifteen times in a row is steady until it does not; what an app answers may change any time', () => {
  const tcp = healthCheckSchema.parse({ type: 'tcp' });
  let verdict = unknownVerdict;
  const steadiness = (answers: string) =>
    answers
      .split('')
      .map((answer) => {
        verdict = judge(verdict, answer === '+', 2);
        return isSteady(verdict, tcp) ? 's' : '.';
      })
      .join('');
  assert.equal(steadiness('+'.repeat(17)), `${'.'.repeat(15)}ss`);
  assert.equal(steadiness('-+'), '..');
  assert.equal(steadiness('+'.repeat(14)), `${'.'.repeat(13)}s`);
  assert.equal(isSteady(verdict, healthCheckSchema.parse({ type: 'http' })), false);
});

test('a steady port is tried again and again on one socket, until it does not accept', async () => {
  const server = createServer();
  let accepted = 0;
  server.on('connection', () => (accepted += 1));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const target = { address: '127.0.0.1', port: (server.address() as AddressInfo).port };
  const check = healthCheckSchema.parse({ type: 'tcp', intervalMs: 10, timeoutMs: 60_000 });
  const { signal } = new AbortController();
  const refused = untilRefused(check, target, signal);
  await waitFor(() => accepted >= 5, { what: 'five connections', deadlineMs: 60_000 });
  await new Promise((resolve) => server.close(resolve));
  assert.match((await refused) ?? '', /nothing accepts connections/);

  const stop = new AbortController();
  const stopped = untilRefused({ ...check, intervalMs: 60_000 }, target, stop.signal);
  stop.abort();
  assert.equal(await stopped, undefined);
});

test('ports with a service are checked: TCP by accepting if nothing else is said, UDP not at all', () => {
  const job = jobOf('a', {
    ports: [
      { port: 1, protocol: 'tcp', service: { name: 'web' } },
      { port: 2, protocol: 'udp', service: { name: 'dns' } },
      { port: 3, protocol: 'tcp' },
    ],
  });
  const ports = checkedPortsOf(job).map(({ port, service, check }) => [port, service, check?.type]);
  assert.deepEqual(ports, [
    [1, 'web', 'tcp'],
    [2, 'dns', undefined],
  ]);
});

test('an HTTP check wants its status, or any below 500, in time', async () => {
  const server = createServer((request, response) => {
    if (request.url === '/silent') return;
    response.writeHead(Number(request.url?.slice(1))).end('x');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const target = { address: '127.0.0.1', port: (server.address() as AddressInfo).port };
  const { signal } = new AbortController();
  const ask = (path: string, status?: number, timeoutMs = 60_000) =>
    probe(healthCheckSchema.parse({ type: 'http', path, timeoutMs, status }), target, signal);
  assert.equal(await ask('/200'), undefined);
  assert.equal(await ask('/404'), undefined);
  assert.match((await ask('/503')) ?? '', /answered 503/);
  assert.match((await ask('/200', 204)) ?? '', /answered 200/);
  assert.match((await ask('/silent', undefined, 100)) ?? '', /did not answer within 100 ms/);
  const modern = healthCheckSchema.parse({ type: 'http', path: '/404', statusBelow: 400 });
  assert.match((await probe(modern, target, signal)) ?? '', /answered 404: the check wants less than 400/);
  assert.equal(await probe({ ...modern, path: '/302' }, target, signal), undefined);
  assert.equal(await probe({ ...modern, status: 404 }, target, signal), undefined);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  assert.match((await ask('/200')) ?? '', /failed/);
  const tcp = healthCheckSchema.parse({ type: 'tcp', timeoutMs: 60_000 });
  assert.match((await probe(tcp, target, signal)) ?? '', /nothing accepts connections/);
});

test('a check looks at its own port with what it is to say, whatever is announced', async (t) => {
  const asked: IncomingHttpHeaders[] = [];
  const server = createServer(({ headers }, response) => {
    asked.push(headers);
    response.writeHead(headers.host === 'shop.example.com' ? 200 : 400).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  t.after(() => server.close());
  // Nothing listens where it is announced.
  const announced = { address: '127.0.0.1', port: 1 };
  const { signal } = new AbortController();
  const check = { type: 'http', port, statusBelow: 400, headers: { 'X-Forwarded-Proto': 'https' } } as const;
  const known = healthCheckSchema.parse({ ...check, host: 'shop.example.com' });
  assert.equal(await probe(known, announced, signal), undefined);
  assert.equal(asked[0]?.['x-forwarded-proto'], 'https');
  assert.match((await probe(healthCheckSchema.parse(check), announced, signal)) ?? '', /answered 400/);
  const tcp = healthCheckSchema.parse({ type: 'tcp', port, intervalMs: 10 });
  assert.equal(await probe(tcp, announced, signal), undefined);
  const until = untilRefused(tcp, announced, signal);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  assert.match((await until) ?? '', new RegExp(`nothing accepts connections on port ${port} `));
});

test('how long a job may fail is a minute unless it says so, for each up to as long again, and for ever with 0', () => {
  const limit = (restartAfterMs: number | undefined, random: number) =>
    failingLimitMs(healthCheckSchema.parse({ type: 'http', restartAfterMs }), random);
  assert.deepEqual([limit(undefined, 0), limit(undefined, 0.5), limit(10_000, 1)], [60_000, 90_000, 20_000]);
  assert.equal(limit(0, 0.5), Infinity);
});

test('a host that stood still for a minute does not hold that against its jobs', () => {
  const check = healthCheckSchema.parse({ type: 'http', intervalMs: 1_000, timeoutMs: 500 });
  assert.equal(failingForMs(1_200, check), 1_200);
  assert.equal(failingForMs(60_000, check), 2_500);
});

test('an address answers whose kernel refuses, and where packets go nowhere none does', async () => {
  const options = { timeoutMs: 60_000, signal: new AbortController().signal };
  assert.equal(await isReachable({ address: '127.0.0.1', port: 8080 }, options), true);
  assert.equal(await isReachable({ address: '127.0.0.1', port: 1 }, options), true);
  // Broadcast: the kernel sends nobody a connection there.
  assert.equal(await isReachable({ address: '255.255.255.255', port: 8080 }, options), false);
});
