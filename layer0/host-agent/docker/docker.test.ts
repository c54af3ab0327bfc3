/** In which turn images come: of an engine that has what it is told to have, and blobs and hosts that never answer. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempDisposable, readdir } from 'node:fs/promises';
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

async function slowPlace(there: readonly string[], options: { isOfPlatform?: (name: string) => boolean } = {}) {
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
    ...options,
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
  const ask = (image: Image, group: string) => place.engine.ensureImage(image, { group, signal: leaving.signal });
  const asked = ['a', 'a', 'b', 'c'].map((letter) => ask(wholeImage(letter), letter));
  asked.push(...['n1', 'n2', 'n3', 'n4', 'n5'].map((name) => ask({ name }, name)));
  asked.push(ask({ base: 'away:1', layers: [blob('e')] }, 'stack'));
  const ended = Promise.allSettled(asked);
  await waitFor(() => place.underWay().length === 6, { what: 'two images and four names', deadlineMs: 60_000 });
  assert.equal(await place.engine.ensureImage({ name: 'here:1' }, { group: 'other' }), 'here:1');
  assert.equal(await place.engine.ensureImage({ base: 'base:1', layers: [] }, { group: 'other' }), 'base:1');
  assert.deepEqual(place.underWay(), ['a', 'b', 'n1', 'n2', 'n3', 'n4']);
  leaving.abort();
  assert.ok((await ended).every((one) => one.status === 'rejected' && hasCode(one.reason, 'cancelled')));
  await waitFor(() => place.underWay().length === 0, { what: 'all to be given up', deadlineMs: 60_000 });
  assert.deepEqual([...place.fetched.keys()].sort(), ['a', 'b', 'n1', 'n2', 'n3', 'n4']);
});

test('one group’s images keep nobody else’s from coming, nor those of the host and the platform', async () => {
  await using place = await slowPlace([], { isOfPlatform: (name) => name === 'flynn/part:1' });
  const leaving = new AbortController();
  const ask = (image: Image, group?: string) => place.engine.ensureImage(image, { group, signal: leaving.signal });
  const names = ['n1', 'n2', 'n3', 'n4', 'n5'];
  const asked = [
    ...names.map((name) => ask({ name }, 'one')),
    ...['a', 'b', 'c'].map((l) => ask(wholeImage(l), 'one')),
  ];
  // Others want the same as somebody who is under way, and as somebody whose turn is yet to come.
  asked.push(
    ask({ name: 'n1' }, 'two'),
    ask({ name: 'n1' }, 'three'),
    ask({ name: 'n1' }, 'four'),
    ask({ name: 'n2' }, 'five'),
  );
  asked.push(ask({ name: 'n6' }, 'six'), ask(wholeImage('d'), 'six'));
  let expected = ['a', 'd', 'n1', 'n2', 'n6'];
  const ended = Promise.allSettled(asked);
  await waitFor(() => place.underWay().join() === expected.join(), { what: 'one of each', deadlineMs: 60_000 });
  asked.push(ask({ name: 'n7' }, 'seven'), ask({ name: 'n8' }, 'eight'));
  asked.push(
    ask({ name: 'flynn/etcd:1' }),
    ask({ base: 'flynn/part:1', layers: [blob('e')] }, 'nine'),
    ask(wholeImage('e')),
  );
  expected = ['a', 'd', 'e', 'flynn/etcd:1', 'flynn/part:1', 'n1', 'n2', 'n6', 'n7'];
  const all = Promise.allSettled(asked);
  await waitFor(() => place.underWay().join() === expected.join(), { what: 'those beside them', deadlineMs: 60_000 });
  leaving.abort();
  await Promise.all([ended, all]);
});

test('an image goes on for whoever still waits, and makes room for the next when nobody does', async () => {
  await using place = await slowPlace([]);
  const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()];
  const asked = [
    place.engine.ensureImage(wholeImage('a'), { group: 'x', signal: first.signal }),
    place.engine.ensureImage(wholeImage('a'), { group: 'x', signal: second.signal }),
    place.engine.ensureImage(wholeImage('b'), { group: 'y', signal: third.signal }),
    place.engine.ensureImage(wholeImage('c'), { group: 'z', signal: third.signal }),
  ];
  const ended = Promise.allSettled(asked);
  await waitFor(() => place.underWay().join('') === 'ab', { what: 'two to be fetched', deadlineMs: 60_000 });
  first.abort();
  await assert.rejects(asked[0] ?? Promise.resolve(), (error) => hasCode(error, 'cancelled'));
  assert.deepEqual(place.underWay(), ['a', 'b']);
  second.abort();
  await waitFor(() => place.underWay().join('') === 'bc', { what: 'the next to be fetched', deadlineMs: 60_000 });
  third.abort();
  await ended;
});

test('an image that somebody else removed is looked for anew once it was missed, and one without a configuration sets nothing', async () => {
  const there = ['here:1'];
  await using place = await slowPlace(there);
  assert.equal(await place.engine.ensureImage({ name: 'here:1' }), 'here:1');
  assert.deepEqual(await place.engine.imageEnv('here:1'), {});
  there.pop();
  assert.equal(await place.engine.ensureImage({ name: 'here:1' }), 'here:1');
  await assert.rejects(place.engine.imageEnv('here:1'), (error) => hasCode(error, 'not_found'));
  const leaving = new AbortController();
  const asked = place.engine.ensureImage({ name: 'here:1' }, leaving);
  await waitFor(() => place.underWay().join() === 'here:1', { what: 'it to be brought again', deadlineMs: 60_000 });
  leaving.abort();
  await assert.rejects(asked, (error) => hasCode(error, 'cancelled'));
});

test('by the names that hosts give what they make, and by ids, nobody has an image', async () => {
  await using place = await slowPlace(['flynn-c/image:1', '4b', 'cafe:latest', 'base:1']);
  const id = 'a'.repeat(64);
  for (const name of ['flynn-c/image:1', 'docker.io/flynn-c/image:1', id, `sha256:${id}`]) {
    const refused = (error: unknown) => hasCode(error, 'invalid') && /names no image of a registry/.test(error.message);
    await assert.rejects(place.engine.ensureImage({ name }), refused, name);
    await assert.rejects(place.engine.ensureImage({ base: name, layers: [blob('e')] }), refused, name);
  }
  assert.equal(await place.engine.ensureImage({ name: 'cafe' }), 'cafe:latest');
  assert.equal(await place.engine.ensureImage({ base: 'cafe', layers: [] }), 'cafe:latest');
  assert.deepEqual([...place.fetched.keys()], []);
  const leaving = new AbortController();
  const asked = place.engine.ensureImage({ name: '4b' }, leaving);
  await waitFor(() => place.underWay().join() === '4b:latest', {
    what: 'it to be asked for by name',
    deadlineMs: 60_000,
  });
  leaving.abort();
  await assert.rejects(asked, (error) => hasCode(error, 'cancelled'));
});

test('a pull of which nothing is heard is given up; one that goes on is not', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const pulled = new Set<string>();
  let gone = 0;
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://engine');
    const name = url.searchParams.get('fromImage') ?? '';
    response.setHeader('content-type', 'application/json');
    if (url.pathname !== '/images/create') {
      const isThere = pulled.has(decodeURIComponent(url.pathname).split('/')[2] ?? '');
      response.statusCode = isThere ? 200 : 404;
      return void response.end(JSON.stringify(isThere ? { Id: 'sha256:1' } : { message: 'no such image' }));
    }
    response.once('close', () => (gone += 1));
    if (name === 'mute') return undefined;
    response.write('{"id":"a","status":"Downloading"}\n');
    if (name === 'stuck') return undefined;
    pulled.add('good:1');
    return void response.end();
  });
  const socketPath = join(folder.path, 'docker.sock');
  await once(server.listen(socketPath), 'listening');
  const fetchBlob = () => Promise.reject(new Error('no blobs'));
  const scratchDir = folder.path;
  const patient = (pullSilenceMs: number) =>
    connectDocker({ socketPath, cluster: 'c', fetchBlob, scratchDir, pullSilenceMs });
  const [engine, other] = [patient(50), patient(60_000)];
  try {
    const silent = (error: unknown) => hasCode(error, 'not_found') && /nothing was heard/.test(error.message);
    const all = ['mute:1', 'stuck:1'].map((name) => assert.rejects(engine.ensureImage({ name }), silent));
    assert.equal(await other.ensureImage({ name: 'good:1' }), 'good:1');
    await Promise.all(all);
    await waitFor(() => gone === 3, { what: 'the engine to be left', deadlineMs: 30_000 });
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('of a stack one layer at a time is unpacked, what is below it counts to how large it is, and an engine that does not load it builds it', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const sizes = new Map([['base:1', 1]]);
  let loads = 0;
  let DriverStatus = [['Backing Filesystem', 'extfs']];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://engine');
    const name = decodeURIComponent(url.pathname).replace(/^\/images\/|\/json$/g, '');
    const answer = (code: number, body: unknown) => {
      response.writeHead(code, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    };
    request.resume().once('end', () => {
      if (url.pathname === '/info') return answer(200, { DockerRootDir: folder.path, DriverStatus });
      const size = sizes.get(name);
      // It wants to be given what it has.
      if (url.pathname === '/images/load') {
        loads += 1;
        return answer(200, { errorDetail: { message: `no file 0.tar` } });
      }
      if (url.pathname !== '/build') {
        const there = { Id: `sha256:${name}`, Size: size, RootFS: { Type: 'layers', Layers: [`sha256:${name}`] } };
        return size === undefined ? answer(404, {}) : answer(200, there);
      }
      // As if each layer had nine GiB.
      sizes.set(url.searchParams.get('t') ?? '', 1 + sizes.size * 9 * 1024 ** 3);
      return answer(200, { stream: 'done' });
    });
  });
  const socketPath = join(folder.path, 'docker.sock');
  await once(server.listen(socketPath), 'listening');
  const scratchDir = join(folder.path, 'scratch');
  const bytes = 'a layer';
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
  const unpacked: number[] = [];
  const fetchBlob = async (): Promise<Readable> => {
    unpacked.push((await readdir(scratchDir)).length);
    return Readable.from([Buffer.from(bytes)]);
  };
  const engine = connectDocker({ socketPath, cluster: 'c', fetchBlob, scratchDir });
  try {
    const layers = (count: number) => Array.from({ length: count }, () => ({ digest, sizeBytes: 1 }));
    const tooLarge = (error: unknown) => hasCode(error, 'exhausted') && /more than 20 GiB/.test(error.message);
    await assert.rejects(engine.ensureImage({ base: 'base:1', layers: layers(8) }), tooLarge);
    assert.deepEqual(unpacked, [1, 1, 1, 1], 'the fourth is one too many');
    // Neither are those that came a way on for those after them.
    await assert.rejects(engine.ensureImage({ base: 'base:1', layers: layers(8) }), tooLarge);
    assert.deepEqual([sizes.size, loads], [4, 3]);
    assert.deepEqual(await readdir(scratchDir), []);
    // That one whose images are containerd's does not load it is known before it is given anything.
    DriverStatus = [['driver-type', 'io.containerd.snapshotter.v1']];
    sizes.set('base:2', 1);
    await engine.ensureImage({ base: 'base:2', layers: layers(1) });
    assert.deepEqual([sizes.size, loads], [6, 3]);
  } finally {
    server.closeAllConnections();
    server.close();
  }
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
