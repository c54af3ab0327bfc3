import assert from 'node:assert/strict';
import { mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import type { ServedCertificate } from '@flynn/controller/certificates/model';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { createAuthority } from '@flynn/kit/tls';
import { freePort } from '@flynn/kit/testing-ports';
import { startRouter } from '../router.ts';
import { ControlPlane } from '../testing.ts';
import { RememberedCertificates } from './remembered.ts';
import type { RememberedCertificatesOptions } from './remembered.ts';
import { SealedLines } from './sealed-lines.ts';
import { CertificatePlane, servedBy, shake } from './testing.ts';

const log = silentLogger();
const waiting = { deadlineMs: 60_000, intervalMs: 5 };
const fileName = 'certificates.sealed';

async function folderOf(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-router-'));
  // A router that is stopped after it may write one more time.
  t.after(() => rm(folder, { recursive: true, maxRetries: 20, retryDelay: 50 }));
  return folder;
}

const open = (folder: string, more: Partial<RememberedCertificatesOptions> = {}) =>
  RememberedCertificates.open({ file: join(folder, fileName), key: 'k', log, restMs: 10, ...more });

async function start(folder: string, url: string, routesDeadlineMs: number) {
  const controller = new HttpClient({ baseUrl: url, name: 'the controller' });
  const discovery = createDiscoveryClient({ url });
  const router = await startRouter({
    controller,
    discovery,
    host: '127.0.0.1',
    httpPort: 0,
    clusterKey: 'key',
    tls: { port: 0, profile: 'modern', remembered: await open(folder) },
    routesDeadlineMs,
    log,
  });
  return {
    remembered: () => router.status().tls?.remembered,
    async shown(): Promise<unknown> {
      const socket = await shake(router.httpsPort ?? 0, { servername: 'app.test', rejectUnauthorized: false });
      const { subject } = socket.getPeerCertificate();
      socket.destroy();
      return subject?.CN;
    },
    async stop() {
      await router.stop({ drainMs: 0 });
      await controller.close();
      await discovery.close();
    },
  };
}

const bare = (id: string): ServedCertificate => ({ id, domains: [`${id}.test`], source: 'own', challenges: [] });

const isKept = (folder: string) =>
  readFile(join(folder, fileName), 'utf8').then(
    (text) => text !== '',
    () => false,
  );

/** As a router that knows these would leave the file. */
async function write(folder: string, all: readonly ServedCertificate[]): Promise<string> {
  const remembered = await open(folder);
  remembered.replace(all);
  const stop = new AbortController();
  const running = remembered.run(stop.signal);
  await waitFor(() => isKept(folder), { what: 'the file', ...waiting });
  stop.abort();
  await running;
  return readFile(join(folder, fileName), 'utf8');
}

test('a router that starts while the controller is away shows the certificates it knew last, until it speaks', async (t) => {
  const folder = await folderOf(t);
  const [plane, certificates] = [new ControlPlane(), new CertificatePlane()];
  plane.setRoute({ id: 'r1', domain: 'app.test' });
  const handlers = [...plane.handlers, ...certificates.handlers];
  const serve = (port: number) => startServer({ name: 'plane', handlers, host: '127.0.0.1', port, log });
  let server = await serve(await freePort());
  const { url, port } = server;
  const authority = await createAuthority('test authority');
  certificates.set(await servedBy(authority, { id: 'c1', domains: ['app.test'], name: 'first' }));
  const before = await start(folder, url, 20_000);
  assert.equal(await before.shown(), 'first');
  assert.equal(before.remembered(), undefined);
  await waitFor(() => isKept(folder), { what: 'the certificates to be kept', ...waiting });
  await before.stop();
  await server.close();

  const after = await start(folder, url, 10);
  t.after(() => after.stop());
  assert.equal(await after.shown(), 'first');
  assert.match(after.remembered() ?? '', /^20/);
  certificates.set(await servedBy(authority, { id: 'c1', domains: ['app.test'], name: 'second' }));
  server = await serve(port);
  t.after(() => server.close());
  await waitFor(() => after.remembered() === undefined, { what: 'the controller’s', ...waiting });
  assert.equal(await after.shown(), 'second');
});

test('the file is its owner’s, and shows nothing to who has not the cluster’s key', async (t) => {
  const folder = await folderOf(t);
  const authority = await createAuthority('test authority');
  const one = await servedBy(authority, { id: 'c1', domains: ['app.test'] });
  const challenged: ServedCertificate = {
    ...one,
    challenges: [{ type: 'http-01', token: 'token', answer: 'answer' }],
  };
  const written = await write(folder, [challenged]);
  assert.equal((await stat(join(folder, fileName))).mode & 0o777, 0o600);
  assert.doesNotMatch(written, /app\.test|PRIVATE/);
  const [, sealed = ''] = written.split('\n');
  assert.doesNotMatch(Buffer.from(sealed, 'base64').toString('latin1'), /app\.test|PRIVATE/);
  assert.deepEqual((await open(folder)).certificates, [one]);
  assert.equal((await open(folder, { key: 'other' })).certificates, undefined);
});

test('a file that was cut off, put together anew or garbled is not used', async (t) => {
  const folder = await folderOf(t);
  assert.equal((await open(folder)).certificates, undefined);
  const all = ['a', 'b'].map(bare);
  const whole = await write(folder, all);
  assert.deepEqual((await open(folder)).certificates, all);
  const [head = '', first = '', second = '', tail = ''] = whole.trimEnd().split('\n');
  const flipped = Buffer.from(first, 'base64');
  flipped[3] = (flipped[3] ?? 0) ^ 1;
  for (const [what, lines] of [
    ['cut off', [head, first, second]],
    ['only a head', [head]],
    ['empty', []],
    ['a line missing', [head, second, tail]],
    ['lines changed places', [head, second, first, tail]],
    ['a line twice', [head, first, first, second, tail]],
    ['goes on', [head, first, second, tail, tail]],
    ['a bit of it changed', [head, flipped.toString('base64'), second, tail]],
    ['a line too short', [head, 'AAAA', second, tail]],
    ['another format', [head.replace('"format":1', '"format":2'), first, second, tail]],
    ['no salt', ['{"format":1}', first, second, tail]],
    ['not JSON', ['x', first, second, tail]],
  ] as const) {
    await writeFile(join(folder, fileName), lines.map((line) => `${line}\n`).join(''));
    assert.equal((await open(folder)).certificates, undefined, what);
  }
});

test('a certificate that another version wrote costs none but itself', async (t) => {
  const folder = await folderOf(t);
  const sealed = new SealedLines({ secret: 'k', purpose: 'flynn router: the last known certificates' });
  const lines = [
    { certificate: bare('a') },
    { certificate: { ...bare('b'), source: 'quantum' } },
    { certificate: bare('c') },
  ];
  const all = [...lines, { lines: 3, savedMs: 1, more: 1 }].map((line) => sealed.close(JSON.stringify(line)));
  await writeFile(join(folder, fileName), [JSON.stringify({ format: 1, salt: sealed.salt }), ...all, ''].join('\n'));
  assert.deepEqual((await open(folder)).certificates, ['a', 'c'].map(bare));
});

test('a worker that is not the one to write reads only', async (t) => {
  const folder = await folderOf(t);
  const remembered = await open(folder, { writes: false });
  remembered.replace([bare('a')]);
  await remembered.run(new AbortController().signal);
  assert.deepEqual(await readdir(folder), []);
});
