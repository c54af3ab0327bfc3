/** In which turn images come: of an engine that has what it is told to have, and blobs and hosts that never answer. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { raceAbort, waitFor } from '@flynn/kit/retry';
import type { Image } from '@flynn/scheduler/job-template';
import { connectDocker } from './docker.ts';

const blob = (letter: string) => ({ digest: `sha256:${letter.repeat(64)}`, sizeBytes: 1 });
const wholeImage = (letter: string): Image => ({ config: blob(letter), layers: [blob('f')] });

function* endlessly(next: () => Buffer): Generator<Buffer> {
  for (;;) yield next();
}

async function slowPlace(there: readonly string[]) {
  const folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const server = createServer((request, response) => {
    const [, name = ''] = /^\/images\/(.*)\/json/.exec(decodeURIComponent(request.url ?? '')) ?? [];
    const isThere = there.includes(name);
    response.writeHead(isThere ? 200 : 404, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isThere ? { Id: `sha256:${name}`, RepoTags: [name] } : { message: 'no such image' }));
  });
  const socketPath = join(folder.path, 'docker.sock');
  await once(server.listen(socketPath), 'listening');
  const fetched = new Map<string, AbortSignal>();
  let chunk: (() => Buffer) | undefined;
  const hang = (what: string, signal: AbortSignal | undefined): Promise<never> => {
    assert.ok(signal);
    fetched.set(what, signal);
    return raceAbort(new Promise<never>(() => undefined), signal);
  };
  const engine = connectDocker({
    socketPath,
    cluster: 'c',
    fetchBlob: async (digest, { signal }): Promise<Readable> => {
      if (chunk === undefined) return hang(digest.slice(-1), signal);
      return Readable.from(endlessly(chunk));
    },
    async *fetchImages([name = ''], { signal }) {
      yield await hang(name, signal);
    },
    scratchDir: folder.path,
  });
  return {
    engine,
    fetched,
    /** Of every blob, for ever. */
    send: (next: () => Buffer) => void (chunk = next),
    underWay: () => [...fetched].flatMap(([name, { aborted }]) => (aborted ? [] : [name])).sort(),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}

test('images that hang take turns among their like: what is here, and what comes another way, waits for none of them', async () => {
  await using place = await slowPlace(['here:1', 'base:1']);
  const leaving = new AbortController();
  const asked = ['a', 'a', 'b', 'c'].map((letter) => place.engine.ensureImage(wholeImage(letter), leaving));
  const stack = { base: 'away:1', layers: [blob('e')] };
  asked.push(...['n1', 'n2', 'n3', 'n4', 'n5'].map((name) => place.engine.ensureImage({ name }, leaving)));
  asked.push(place.engine.ensureImage(stack, leaving));
  const ended = Promise.allSettled(asked);
  await waitFor(() => place.underWay().length === 6, { what: 'two images and four names', deadlineMs: 10_000 });
  assert.equal(await place.engine.ensureImage({ name: 'here:1' }), 'here:1');
  assert.equal(await place.engine.ensureImage({ base: 'base:1', layers: [] }), 'base:1');
  assert.deepEqual(place.underWay(), ['a', 'b', 'n1', 'n2', 'n3', 'n4']);
  leaving.abort();
  assert.ok((await ended).every((one) => one.status === 'rejected' && hasCode(one.reason, 'cancelled')));
  await waitFor(() => place.underWay().length === 0, { what: 'all to be given up', deadlineMs: 10_000 });
  assert.deepEqual([...place.fetched.keys()].sort(), ['a', 'b', 'n1', 'n2', 'n3', 'n4']);
});

test('an image goes on for whoever still waits, and makes room for the next when nobody does', async () => {
  await using place = await slowPlace([]);
  const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()];
  const asked = [
    place.engine.ensureImage(wholeImage('a'), first),
    place.engine.ensureImage(wholeImage('a'), second),
    place.engine.ensureImage(wholeImage('b'), third),
    place.engine.ensureImage(wholeImage('c'), third),
  ];
  const ended = Promise.allSettled(asked);
  await waitFor(() => place.underWay().join('') === 'ab', { what: 'two to be fetched', deadlineMs: 10_000 });
  first.abort();
  await assert.rejects(asked[0] ?? Promise.resolve(), (error) => hasCode(error, 'cancelled'));
  assert.deepEqual(place.underWay(), ['a', 'b']);
  second.abort();
  await waitFor(() => place.underWay().join('') === 'bc', { what: 'the next to be fetched', deadlineMs: 10_000 });
  third.abort();
  await ended;
});

test('by the names that hosts give what they make, and by ids, nobody has an image', async () => {
  await using place = await slowPlace(['flynn-c/image:1', '4b', 'base:1']);
  for (const name of ['flynn-c/image:1', 'docker.io/flynn-c/image:1', '4b', `sha256:${'a'.repeat(64)}`]) {
    const refused = (error: unknown) => hasCode(error, 'invalid') && /names no image of a registry/.test(error.message);
    await assert.rejects(place.engine.ensureImage({ name }), refused, name);
    await assert.rejects(place.engine.ensureImage({ base: name, layers: [blob('e')] }), refused, name);
  }
  assert.deepEqual([...place.fetched.keys()], []);
});

test('a configuration that is too large is not read, whatever it is said to be', async () => {
  await using place = await slowPlace([]);
  const large = { config: { digest: `sha256:${'a'.repeat(64)}`, sizeBytes: 9 * 1024 ** 2 }, layers: [] };
  const refused = (error: unknown) => hasCode(error, 'invalid') && /more than 8 MiB/.test(error.message);
  await assert.rejects(place.engine.ensureImage(large), refused);
  assert.deepEqual([...place.fetched.keys()], []);
  place.send(() => Buffer.alloc(1024 ** 2, ' '));
  await assert.rejects(place.engine.ensureImage(wholeImage('a')), refused);
});
