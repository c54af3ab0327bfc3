import { silentLogger } from '@flynn/kit/log';
import { startServer } from '@flynn/kit/http-server';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { createDiscoveryClient } from './client.ts';
import { createMemoryRegistry } from './memory-registry.ts';
import type { RegistryReads } from './registry.ts';
import { keepRendered, renderOnce } from './render.ts';
import { discoveryHandlers } from './server.ts';
import { compileTemplate } from './template.ts';

const log = silentLogger();
const template = compileTemplate('{{#each (instances "web")}}{{id}} {{/each}}', 't');

async function place() {
  const dir = await mkdtemp(path.join(tmpdir(), 'flynn-render-'));
  const out = path.join(dir, 'out');
  return {
    dir,
    out,
    until: (text: string) =>
      waitFor(async () => (await readFile(out, 'utf8')) === text, { what: `"${text}"`, deadlineMs: 60_000 }),
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
}
const from = (registry: RegistryReads) => (signal: AbortSignal) => registry.subscribeAll({ signal });

test('the file follows the instances, and a program that cannot be told is told later', async () => {
  await using where = await place();
  await using registry = createMemoryRegistry({ log });
  const stop = new AbortController();
  const { out, dir } = where;
  const kept = keepRendered({
    template,
    file: { path: out, exec: `test -e ${dir}/ready && cp ${out} ${dir}/used` },
    events: from(registry),
    log,
    signal: stop.signal,
    minMs: 10,
  });
  await where.until('');
  for (const id of ['b', 'a']) await registry.register({ service: 'web', id, address: 'h:1' });
  await where.until('a b ');
  await writeFile(path.join(dir, 'ready'), '');
  await waitFor(async () => (await readFile(path.join(dir, 'used'), 'utf8')) === 'a b ', {
    what: 'the reload to be tried again',
    deadlineMs: 60_000,
  });
  stop.abort();
  await kept;
});

test('while discovery is away the file stays, and nothing of it is lost when it is back', async () => {
  await using where = await place();
  await using registry = createMemoryRegistry({ log });
  await registry.register({ service: 'web', id: 'a', address: 'h:1' });
  const stop = new AbortController();
  const serve = (port: number) =>
    startServer({
      handlers: discoveryHandlers(registry, { signal: stop.signal }),
      log,
      host: '127.0.0.1',
      port,
      name: 'discovery',
    });
  const first = await serve(await freePort());
  await using client = createDiscoveryClient({ url: first.url });
  const events = (signal: AbortSignal) => client.subscribeAll({ signal });
  let reloads = 0;
  const counting = log.child({});
  counting.info = () => void (reloads += 1);
  const kept = keepRendered({
    template,
    file: { path: where.out },
    events,
    log: counting,
    signal: stop.signal,
    minMs: 10,
  });
  await where.until('a ');
  await first.close();
  await registry.register({ service: 'web', id: 'b', address: 'h:1' });
  await using _second = await serve(first.port);
  await where.until('a b ');
  // What is told of a write comes after it.
  await waitFor(() => reloads >= 2, { what: 'the write to be told', deadlineMs: 60_000 });
  assert.equal(reloads, 2, 'nothing was written in between');
  stop.abort();
  await kept;
});

test('once means once, and says when discovery does not answer', async () => {
  await using where = await place();
  await using registry = createMemoryRegistry({ log });
  await registry.register({ service: 'web', id: 'a', address: 'h:1' });
  const signal = AbortSignal.timeout(60_000);
  const options = { template, file: { path: where.out }, log };
  assert.equal(await renderOnce({ ...options, events: from(registry), signal }), 'written');
  assert.equal(await readFile(where.out, 'utf8'), 'a ');
  await using client = createDiscoveryClient({ url: 'http://127.0.0.1:1' });
  const late = renderOnce({
    ...options,
    events: (s) => client.subscribeAll({ signal: s }),
    signal: AbortSignal.timeout(200),
  });
  await assert.rejects(late, { code: 'timeout' });
  assert.equal(await readFile(where.out, 'utf8'), 'a ');
});

test('a template that an instance does not fit leaves the file alone until it does', async () => {
  await using where = await place();
  await using registry = createMemoryRegistry({ log });
  const stop = new AbortController();
  const strict = compileTemplate('{{#each (instances "web")}}{{attributes.zone}} {{/each}}', 't');
  const failed = Promise.withResolvers<void>();
  const telling = log.child({});
  telling.error = () => failed.resolve();
  await registry.register({ service: 'web', id: 'a', address: 'h:1', attributes: { zone: 'x' } });
  const kept = keepRendered({
    template: strict,
    file: { path: where.out },
    events: from(registry),
    log: telling,
    signal: stop.signal,
    minMs: 10,
  });
  await where.until('x ');
  await registry.register({ service: 'web', id: 'b', address: 'h:1' });
  await failed.promise;
  assert.equal(await readFile(where.out, 'utf8'), 'x ');
  await registry.register({ service: 'web', id: 'b', address: 'h:1', attributes: { zone: 'y' } });
  await where.until('x y ');
  stop.abort();
  await kept;
});

test('a clock that is set back keeps nothing from being rendered', async (t) => {
  await using where = await place();
  await using registry = createMemoryRegistry({ log });
  const stop = new AbortController();
  let nowMs = Date.now();
  t.mock.method(Date, 'now', () => (nowMs -= 3_600_000));
  const file = { path: where.out };
  const kept = keepRendered({ template, file, events: from(registry), log, signal: stop.signal, minMs: 10 });
  await where.until('');
  await registry.register({ service: 'web', id: 'a', address: 'h:1' });
  await where.until('a ');
  stop.abort();
  await kept;
});
