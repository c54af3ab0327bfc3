/** What an app.json makes of a push: the plan as a table, and the whole of it against a controller. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseAppJson } from '@flynn/controller/apps/app-json';
import { processSchema } from '@flynn/controller/processes/process';
import { hasCode } from '@flynn/kit/errors';
import { firstCounts, firstEnv, unmadeNotes, withHealthchecks, withoutHealthchecks } from './app-json-plan.ts';
import { scriptsOf } from './release-plan.ts';

const parse = (value: unknown) => parseAppJson(JSON.stringify(value));
const process = (ports: { port: number }[]) => processSchema.parse({ ports });

test('variables that are not set are as app.json says; what is set stays', () => {
  const { env } = parse({ env: { A: 'a', B: { generator: 'secret' }, C: { value: 'c' }, D: { required: false } } });
  assert.deepEqual(
    firstEnv({ env }, { A: 'mine', X: 'x' }, () => 'random'),
    { A: 'mine', B: 'random', C: 'c', X: 'x' },
  );
});

test('a variable that is required and not set is asked for, with what to type', () => {
  const { env } = parse({ env: { NEEDED: { description: 'x' }, ALSO: {}, SET: {} } });
  const isAsked = (error: unknown) =>
    hasCode(error, 'invalid') && /requires NEEDED, ALSO: .*"flynn env set NEEDED=… ALSO=…"/.test(error.message);
  assert.throws(() => firstEnv({ env }, { SET: '1' }, () => ''), isAsked);
  assert.deepEqual(
    firstEnv({ env }, { NEEDED: '1', ALSO: '', SET: '1' }, () => ''),
    { NEEDED: '1', ALSO: '', SET: '1' },
  );
});

test('a variable that a command was to make is left out, and the pusher reads that', () => {
  const { env } = parse({ env: { MADE: { generator: 'echo 5' }, SET: { generator: 'echo 6' } } });
  const made = firstEnv({ env }, { SET: '1' }, () => '');
  assert.deepEqual(made, { SET: '1' });
  assert.deepEqual(unmadeNotes({ env }, made), [
    'app.json: MADE is not set: "echo 5" is not run, as only the generator "secret" is known; see "flynn env set MADE=…"',
  ]);
});

test('the check of a type is its first that looks from outside, in our words', () => {
  const { healthchecks } = parse({
    healthchecks: {
      web: [
        { type: 'liveness', path: '/live' },
        { type: 'startup', command: ['true'] },
        { type: 'startup', path: '/up', port: 5000, attempts: 6, interval: 3, timeout: 2, initialDelay: 4 },
      ],
      worker: [{ type: 'startup' }],
      gone: [{ type: 'startup' }],
    },
  });
  const { processes, notes } = withHealthchecks(
    { web: process([{ port: 8080 }]), worker: process([]) },
    healthchecks,
    'shop',
  );
  assert.deepEqual(processes['web']?.ports, [
    {
      port: 8080,
      protocol: 'tcp',
      service: {
        name: 'shop-web',
        check: {
          type: 'http',
          path: '/up',
          port: 5000,
          intervalMs: 3_000,
          timeoutMs: 2_000,
          threshold: 6,
          startTimeoutMs: 34_000,
          restartAfterMs: 30_000,
        },
      },
    },
  ]);
  assert.deepEqual(processes['worker']?.ports, []);
  assert.equal(notes.length, 3);
  assert.match(notes.join(), /runs a command .*listens on no port.*no process type gone/);
});

const checkOf = (check: object) => {
  const { healthchecks } = parse({ healthchecks: { web: [check] } });
  const { processes, notes } = withHealthchecks({ web: process([{ port: 8080 }]) }, healthchecks, 'shop');
  const { type, path, status, host, headers } = processes['web']?.ports[0]?.service?.check ?? {};
  return { check: { type, path, status, host, headers }, notes };
};

test('a check asks with the headers it is given, and says what is to be answered', () => {
  const httpHeaders = [
    { name: 'host', value: 'shop.example.com' },
    { name: 'X-Forwarded-Proto', value: 'https' },
  ];
  assert.deepEqual(checkOf({ path: '/up', status: 401, httpHeaders }), {
    check: {
      type: 'http',
      path: '/up',
      status: 401,
      host: 'shop.example.com',
      headers: { 'X-Forwarded-Proto': 'https' },
    },
    notes: [],
  });
});

test('what a check wants and does not get is told', () => {
  const { check, notes } = checkOf({ path: '/up', scheme: 'https', content: 'ok' });
  assert.deepEqual([check.type, notes.length], ['tcp', 2]);
  assert.match(notes.join('\n'), /a check of web wants HTTPS: .*\n.*wants some content: /);
  assert.deepEqual(checkOf({ path: '/up', warn: true }).notes, [
    'app.json: a check of web that only warns is left out',
  ]);
});

const fresh = { web: process([{ port: 8080 }]), worker: process([]) };
const before = parse({
  healthchecks: { web: [{ path: '/up', port: 9090 }], worker: [{ port: 7000 }] },
}).healthchecks;
const once = withHealthchecks(fresh, before, 'shop').processes;
const after = (now: object, processes = once) =>
  withoutHealthchecks(
    processes,
    { fresh, healthchecks: before },
    { now: parse({ healthchecks: now }).healthchecks, appName: 'shop' },
  );

test('a check that app.json gave goes with it, and the port it made', () => {
  assert.equal(once['worker']?.ports[0]?.port, 7000);
  assert.deepEqual(after({}), fresh);
});

test('a check that somebody set since stays', () => {
  const [port] = once['web']?.ports ?? [];
  assert.ok(port?.service?.check !== undefined);
  const { service } = port;
  const check = { ...service.check, path: '/mine' };
  const web = processSchema.parse({ ports: [{ ...port, service: { ...service, check } }] });
  assert.deepEqual(after({}, { web }), { web });
});

test('a port that a check took the place of comes back once app.json says it no more', () => {
  const check = {
    type: 'http',
    path: '/up',
    intervalMs: 5_000,
    timeoutMs: 5_000,
    threshold: 3,
    startTimeoutMs: 30_000,
  };
  const web = processSchema.parse({ ports: [{ port: 9090, service: { name: 'shop-web', check } }] });
  assert.deepEqual(after({}, { web }), { web: fresh.web });
  assert.deepEqual(after({ web: [{ path: '/up' }] }, { web }), { web: fresh.web });
  assert.equal(after({ web: [{ path: '/up', port: 9090 }] }, { web })['web']?.ports[0]?.port, 9090);
});

test('one that hangs is started again as its checks say; those that do not say leave it to the host', () => {
  const restartOf = (web: object[]) => {
    const { healthchecks } = parse({ healthchecks: { web } });
    const { processes } = withHealthchecks({ web: process([{ port: 8080 }]) }, healthchecks, 'shop');
    return processes['web']?.ports[0]?.service?.check?.restartAfterMs;
  };
  assert.equal(restartOf([{ path: '/up' }, { type: 'liveness', command: ['true'] }]), undefined);
  assert.equal(restartOf([{ path: '/up' }, { type: 'liveness', attempts: 5, interval: 10, timeout: 2 }]), 60_000);
  assert.equal(restartOf([{ type: 'liveness', attempts: 1, interval: 1, timeout: 1 }]), 10_000);
  assert.equal(restartOf([{ path: '/up', restartAfter: 300 }, { type: 'liveness' }]), 300_000);
  assert.equal(restartOf([{ path: '/up' }, { type: 'liveness', restartAfter: 0 }]), 0);
});

test('counts are of types the release before did not have', () => {
  const { formation } = parse({ formation: { web: { quantity: 2 }, worker: { quantity: 3 }, gone: { quantity: 1 } } });
  assert.deepEqual(firstCounts({ formation }, { now: ['web', 'worker'], before: ['web'] }), { worker: 3 });
});

test('the Procfile’s release line is the step before a rollout, and wins over app.json’s', () => {
  const appJson = parse({ scripts: { predeploy: 'a', release: 'b', postdeploy: 'c' } });
  const processTypes = { web: 'x', release: 'migrate' };
  assert.deepEqual(scriptsOf({ processTypes, appJson }), { predeploy: 'a', release: 'migrate', postdeploy: 'c' });
  assert.deepEqual(scriptsOf({ processTypes: { web: 'x' } }), {});
});
