import assert from 'node:assert/strict';
import { test } from 'node:test';
import { slugProcess } from '@flynn/controller/processes/compile';
import { type Deployment, type Route, routeSchema } from '@flynn/controller/model';
import { processSchema } from '@flynn/controller/processes/process';
import { rolloutSchema } from '@flynn/controller/deployments/rollout-settings';
import {
  failedJobLines,
  idleLines,
  othersWait,
  progressLines,
  remainsLine,
  routeLines,
  waitingLines,
} from './deploy-text.ts';
import { freshProcesses, processesOf } from './release-plan.ts';

const route = routeSchema.parse({
  id: 'r',
  appId: 'a',
  type: 'http',
  domain: 'shop.example.com',
  path: '/',
  service: 'shop-web',
  createdAt: '',
});

test('progress is told when it changes, and only of types that are wanted', () => {
  const at = (up: number): Deployment['progress'] => ({
    web: { wanted: 2, up, old: 0 },
    off: { wanted: 0, up: 0, old: 1 },
  });
  assert.deepEqual(progressLines({}, { progress: at(0) }), []);
  assert.deepEqual(progressLines({}, { progress: at(1) }), ['       web 1/2 up']);
  assert.deepEqual(progressLines(at(1), { progress: at(1) }), []);
  assert.deepEqual(progressLines(at(1), { progress: at(2) }), ['       web 2/2 up']);
});

test('types that came with a release and have no jobs are told once, with what starts them', () => {
  const progress = {
    web: { wanted: 1, up: 1, old: 0 },
    worker: { wanted: 0, up: 0, old: 0 },
    clock: { wanted: 0, up: 0, old: 0 },
  };
  const types = Object.keys(progress);
  const both = ['       No jobs yet of worker, clock. To start one of each: flynn scale worker=1 clock=1'];
  assert.deepEqual(idleLines({ progress }, types, []), both);
  assert.match(idleLines({ progress }, types, ['web', 'worker']).join(), /of clock\. .*: flynn scale clock=1$/);
  assert.deepEqual(idleLines({ progress }, types, types), []);
  assert.deepEqual(idleLines({ progress }, ['web', 'gone'], []), []);
});

test('a failed deployment says what the app said, how it ended, and what runs now', () => {
  const failedJob = { id: 'h-1', type: 'web', exitCode: 3, lines: ['no database', ''] };
  assert.deepEqual(failedJobLines({ failedJob }), [
    '       the last lines of web:',
    '       no database',
    '',
    '       web (h-1) ended with exit code 3',
  ]);
  assert.deepEqual(failedJobLines({ failedJob: { id: 'h-1', type: 'web', lines: [] } }), [
    '       web said nothing before it ended',
    '       web (h-1) failed',
  ]);
  const unknown = failedJobLines({ failedJob: { ...failedJob, exitCode: 127 } }).slice(-2);
  assert.match(unknown.join(), /ended with exit code 127 \(command not found\),.*among the app's dependencies/);
  assert.deepEqual(failedJobLines({}), []);
  assert.match(remainsLine({ oldReleaseId: 'o' }), /keeps running/);
  assert.match(remainsLine({}), /Nothing of the app runs/);
});

test('a deployment that waits for people says what they can do', () => {
  assert.match(waitingLines({ state: 'canary' }).join('\n'), /canaries are up.*promote/s);
  const rollout = rolloutSchema.parse({ strategy: 'canary', autoPromoteMs: 600_000 });
  assert.match(waitingLines({ state: 'canary', rollout }).join('\n'), /rest follows once they were healthy for 600 s/);
  assert.match(waitingLines({ state: 'paused' }).join('\n'), /paused.*resume/s);
  assert.match(othersWait({ state: 'canary' }), /promote" or "abort", then push again/);
  assert.match(othersWait({ state: 'paused' }), /resume" or "abort", then push again/);
});

test('routes are shown as people type them', () => {
  const routes: Route[] = [route, { ...route, path: '/api' }, { ...route, type: 'tcp', domain: undefined, port: 3001 }];
  assert.deepEqual(routeLines(routes, { domain: 'example.com', httpPort: 80 }), [
    '=====> http://shop.example.com',
    '=====> http://shop.example.com/api',
    '=====> tcp://example.com:3001',
  ]);
  assert.deepEqual(routeLines([route], { domain: 'example.com', httpPort: 8080 }), [
    '=====> http://shop.example.com:8080',
  ]);
  const shown = { ...route, path: '/api', httpsPort: 443 };
  assert.deepEqual(routeLines([shown, { ...shown, httpsPort: 8443 }], { domain: 'example.com', httpPort: 8080 }), [
    '=====> https://shop.example.com/api',
    '=====> https://shop.example.com:8443/api',
  ]);
});

test('a release of a slug after one of an image keeps the settings and takes the slug’s command', () => {
  const image = processSchema.parse({
    entrypoint: ['/bin/app'],
    command: ['serve'],
    user: 'nobody',
    env: { MODE: 'x', HOME: '/srv' },
    ports: [{ port: 3000 }],
    cpuMillis: 250,
  });
  const { web } = processesOf({ processTypes: { web: 'node a.js' } }, { web: image, gone: image });
  assert.deepEqual(web?.command, ['/usr/bin/flynn-run', 'node a.js']);
  assert.equal(web?.entrypoint, undefined);
  assert.equal(web?.user, '5000');
  assert.deepEqual(
    web?.ports.map(({ port }) => port),
    [3000],
  );
  assert.equal(web?.cpuMillis, 250);
  assert.deepEqual(web?.env, { MODE: 'x', HOME: '/app' });
});

test('an image’s own command is `web`, on the port it exposes; lines go to its shell', () => {
  const config = { digest: 'd', sizeBytes: 1 };
  const image = { config, hasCommand: true, port: 3000 };
  const web = processSchema.parse({ ...slugProcess('node a.js', 'web'), stopTimeoutMs: 7_000 });
  const next = processesOf({ processTypes: { worker: 'work' }, image }, { web });
  assert.equal(next['web']?.command, undefined);
  assert.equal(next['web']?.entrypoint, undefined);
  assert.deepEqual([next['web']?.env, next['web']?.user], [{}, undefined], 'what slugs are started with is gone');
  assert.equal(next['web']?.stopTimeoutMs, 7_000);
  assert.deepEqual(
    next['web']?.ports.map(({ port }) => port),
    [3000],
  );
  assert.deepEqual(next['worker']?.entrypoint, ['/bin/sh']);
  assert.deepEqual(next['worker']?.command, ['-c', 'work']);
  assert.deepEqual(next['worker']?.ports, []);
  const silent = processesOf({ processTypes: {}, image: { config, hasCommand: true } }, {});
  assert.deepEqual(
    silent['web']?.ports.map(({ port }) => port),
    [8080],
  );
  assert.deepEqual(processesOf({ processTypes: {}, image: { config, hasCommand: false } }, {}), {});
});

test('links outlive a push; a type that is new reaches what all types reached', () => {
  const linked = (...links: string[]) => processSchema.parse({ links });
  const earlier = { web: linked('db', 'cache'), worker: linked('queue', 'db') };
  const next = processesOf({ processTypes: { web: 'w', clock: 'c' } }, earlier);
  assert.deepEqual(next['web']?.links, ['db', 'cache']);
  assert.deepEqual(next['clock']?.links, ['db']);
  assert.deepEqual(processesOf({ processTypes: { web: 'w' } }, {})['web']?.links, []);
});

const config = { digest: 'd', sizeBytes: 1 };
const ofImage = (processTypes: Record<string, string> = {}) => ({
  processTypes,
  image: { config, hasCommand: true, port: 80 },
});

test('what people added beside an image’s types stays with the next image, and so does the command they gave', () => {
  const web = processSchema.parse({ command: ['serve', '--fast'], ports: [{ port: 80 }] });
  const worker = processSchema.parse({ command: ['work'], memoryBytes: 1024 ** 2 });
  for (const origin of [ofImage(), 'people' as const]) {
    const next = processesOf(ofImage(), { web, worker }, origin);
    assert.deepEqual(next['worker'], worker);
    assert.deepEqual(next['web']?.command, ['serve', '--fast']);
  }
  const named = processesOf(ofImage({ web: 'line' }), { web, worker }, ofImage());
  assert.deepEqual(named['web']?.command, ['-c', 'line'], 'a line that comes with the image is what it says');
});

test('what an image or a Procfile said and says no more goes, as does what belongs to a slug', () => {
  const { web, worker } = freshProcesses(ofImage({ web: 'serve', worker: 'work' }));
  assert.ok(web !== undefined && worker !== undefined);
  const next = processesOf(ofImage(), { web, worker }, ofImage({ web: 'serve', worker: 'work' }));
  assert.deepEqual(Object.keys(next), ['web']);
  assert.deepEqual([next['web']?.command, next['web']?.entrypoint], [undefined, undefined]);
  const slug = { processTypes: { web: 'node a.js', worker: 'node b.js' } };
  assert.deepEqual(Object.keys(processesOf(ofImage(), freshProcesses(slug), 'people')), ['web']);
  assert.deepEqual(Object.keys(processesOf({ processTypes: { web: 'w' } }, { web, worker }, ofImage())), ['web']);
});
