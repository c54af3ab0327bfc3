/** Images fetched from a registry, which a test plays over HTTP. */
import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { layers } from '@flynn/controller/collection/api-layers';
import { buildResultSchema } from '@flynn/controller/model';
import { startTestBlobs } from '@flynn/controller/testing/blobs';
import { HttpClient } from '@flynn/kit/http-client';
import { hasCode } from '@flynn/kit/errors';
import { handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import type { Operation } from '@flynn/controller/model';
import type { Execution } from './execution.ts';
import type { RegistryAccess, RegistryPatience } from './registry/client.ts';
import { executeImport } from './import-operation.ts';
import { parseReference } from './registry/reference.ts';
import { digestOf, registryFiles } from './registry/registry-fixture.ts';

/** `play` answers by itself. */
type Answer = {
  status?: number;
  headers?: Record<string, string>;
  body?: Buffer | string;
  play?: (response: ServerResponse) => void;
};

async function openPlace(answer: (path: string, request: IncomingMessage) => Answer | undefined) {
  const store = await startTestBlobs();
  const asked: string[] = [];
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const path = request.url ?? '';
    asked.push(path);
    const {
      status = 200,
      headers = {},
      body = '',
      play,
    } = answer(path.replace('/v2/team/app/', ''), request) ?? { status: 404 };
    if (play === undefined) response.writeHead(status, headers).end(body);
    else play(response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  const host = `127.0.0.1:${address.port}`;
  const lines: string[] = [];
  const others = new Set<string>();
  const platform = await startServer({
    name: 'controller',
    key: 'k',
    host: '127.0.0.1',
    port: 0,
    log: silentLogger(),
    handlers: [
      handle(layers.missing, async ({ params, query }) => {
        assert.equal(params.operation, 'o1');
        return { missing: query.digests.split(',').filter((digest) => others.has(digest)) };
      }),
    ],
  });
  const controller = new HttpClient({ baseUrl: platform.url, key: 'k', name: 'the controller' });
  const execution: Execution = {
    operation: { id: 'o1' } as Operation,
    controller,
    blobs: store.blobs,
    env: async () => ({}),
    ownLogins: async () => ({}),
    ownRegistries: { plain: [], only: undefined },
    slugRunnerImage: '',
    write: async (...texts) => void lines.push(...texts),
    lookMs: 1_000,
    signal: new AbortController().signal,
    handover: {},
    isGivenBack: () => false,
  };
  const fetchImage = async (
    logins: RegistryAccess['logins'] = {},
    { isConfined = false, patience }: { isConfined?: boolean; patience?: RegistryPatience } = {},
  ) => {
    const access = { logins, isPlain: true, isConfined };
    const { resultDigest = '' } = await executeImport(execution, `${host}/team/app:1.4`, access, patience);
    return buildResultSchema.parse(JSON.parse(await text(await store.blobs.get(resultDigest))));
  };
  return {
    host,
    asked,
    lines,
    others,
    fetchImage,
    blobs: store.blobs,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await controller.close();
      await platform.close();
      await store[Symbol.asyncDispose]();
    },
  };
}

const isError = (code: 'invalid' | 'denied', pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);

test('an image comes from its registry once, as it is for this machine, and is known by its digest', async () => {
  const files = registryFiles();
  await using place = await openPlace((path) => {
    const body = files[path];
    return body === undefined ? undefined : { body };
  });
  const result = await place.fetchImage();
  assert.equal(result.image?.port, 81);
  assert.equal(result.layers[0]?.digest, digestOf('layer'));
  assert.equal(result.meta['image.ref'], `${place.host}/team/app:1.4`);
  assert.match(result.meta['image.digest'] ?? '', /^sha256:/);
  assert.equal(await text(await place.blobs.get(digestOf('layer'))), 'layer');
  const before = place.asked.length;
  assert.deepEqual(await place.fetchImage(), result);
  assert.ok(
    !place.asked.slice(before).some((path) => path.includes(digestOf('layer'))),
    'what is there is not fetched',
  );
  assert.match(place.lines.join('\n'), /layer of 0\.0 MB: there already/);
});

test('a layer that only others have here is fetched all the same: a registry cannot make up that it has it', async () => {
  const files = registryFiles();
  const layer = digestOf('layer');
  let isThere = false;
  await using place = await openPlace((path) => {
    const body = path === `blobs/${layer}` && !isThere ? undefined : files[path];
    return body === undefined ? undefined : { body };
  });
  await place.blobs.put('layer');
  place.others.add(layer);
  await assert.rejects(place.fetchImage(), isError('invalid', /has no team\/app\/sha256/));
  isThere = true;
  assert.deepEqual(
    (await place.fetchImage()).layers.map(({ digest }) => digest),
    [layer],
  );
  assert.doesNotMatch(place.lines.join('\n'), /there already/);
});

test('a registry that wants a token gives one for the login, which goes nowhere else', async () => {
  const files = registryFiles();
  const seen: string[] = [];
  await using place = await openPlace((path, { headers }) => {
    const { authorization = '' } = headers;
    seen.push(`${path.split(/[?:]/)[0]} ${authorization}`);
    if (path.startsWith('/token')) {
      const isKnown = authorization === `Basic ${Buffer.from('me:secret').toString('base64')}`;
      return isKnown ? { body: JSON.stringify({ token: 't1' }) } : { status: 401 };
    }
    if (authorization !== 'Bearer t1') {
      const challenge = `Bearer realm="http://${headers.host ?? ''}/token",service="reg"`;
      return { status: 401, headers: { 'www-authenticate': challenge } };
    }
    const body = files[path];
    return body === undefined ? undefined : { body };
  });
  await assert.rejects(place.fetchImage(), isError('denied', /without a login.*flynn registry login/));
  await assert.rejects(
    place.fetchImage({ [place.host]: { username: 'me', password: 'no' } }),
    isError('denied', /with the login/),
  );
  const result = await place.fetchImage({ [place.host]: { username: 'me', password: 'secret' } });
  assert.equal(result.layers.length, 1);
  assert.ok(place.asked.some((path) => path === '/token?scope=repository%3Ateam%2Fapp%3Apull&service=reg'));
  assert.ok(
    seen.every((line) => !line.includes('Basic') || line.startsWith('/token')),
    seen.join('\n'),
  );
});

test('a runner in a network of its own is led nowhere in it, by a redirect or a realm, but to the registry’s own host', async (t) => {
  const files = registryFiles();
  const elsewhere = createServer((_request, response) => void response.end('secret')).listen(0, '127.0.0.2');
  t.after(() => elsewhere.close());
  await once(elsewhere, 'listening');
  const address = elsewhere.address();
  assert.ok(address !== null && typeof address === 'object');
  const reached: unknown[] = [];
  elsewhere.on('connection', (socket) => reached.push(socket.remoteAddress));
  let answer: (path: string, request: IncomingMessage) => Answer | undefined = () => undefined;
  await using place = await openPlace((path, request) => answer(path, request));
  const confined = (logins = {}) => place.fetchImage(logins, { isConfined: true });
  const isRefused = (host: string) => (error: unknown) =>
    isError('denied', /leads to .*, which is in a private network/)(error) && String(error).includes(host);
  for (const host of [`127.0.0.2:${address.port}`, `localhost:${address.port}`, '10.1.2.3', '[::1]', '[fd00::1]']) {
    answer = () => ({ status: 307, headers: { location: `http://${host}/x` } });
    await assert.rejects(confined(), isRefused(host), host);
    answer = () => ({ status: 401, headers: { 'www-authenticate': `Bearer realm="http://${host}/token"` } });
    await assert.rejects(confined({ [place.host]: { username: 'me', password: 'secret' } }), isRefused(host), host);
  }
  answer = () => ({ status: 302, headers: { location: '/v2/again' } });
  await assert.rejects(confined(), isError('invalid', /without an end/));
  answer = () => ({ status: 302, headers: { location: 'file:///etc/passwd' } });
  await assert.rejects(confined(), isError('invalid', /which is no address/));
  assert.deepEqual(reached, []);
  const moved = '/moved/';
  answer = (path, { headers: { host = '' } }) => {
    if (!path.startsWith(moved)) return { status: 307, headers: { location: `http://${host}${moved}${path}` } };
    const body = files[path.slice(moved.length)];
    return body === undefined ? undefined : { body };
  };
  assert.equal((await confined()).layers.length, 1);
});

test('who waits for a registry that is away for a moment is told once what is waited for', async () => {
  const files = registryFiles();
  let refusals = 3;
  await using place = await openPlace((path) => {
    const body = files[path];
    if (refusals > 0) refusals -= 1;
    else if (body !== undefined) return { body };
    return { status: 503 };
  });
  assert.equal((await place.fetchImage()).image?.port, 81);
  const told = place.lines.filter((line) => /answered 503 .*; trying again for a minute/.test(line));
  assert.equal(told.length, 1, place.lines.join('\n'));
});

const slowly = { answerMs: 2_000, silenceMs: 200 };
const half = 2;

/** What a registry does that sends half of the layer, and what it then does with the connection; asked for a part, that. */
function halfALayer(then: (response: ServerResponse) => void, { givesParts = true } = {}) {
  const files = registryFiles();
  const ranges: (string | undefined)[] = [];
  const answer = (path: string, { headers: { range } }: IncomingMessage): Answer | undefined => {
    const given = files[path];
    if (given === undefined || path !== `blobs/${digestOf('layer')}`)
      return given === undefined ? undefined : { body: given };
    const body = Buffer.from(given);
    ranges.push(range);
    if (ranges.length > 1) {
      const from = Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0);
      if (range === undefined || !givesParts) return { body };
      const headers = { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` };
      return { status: 206, headers, body: body.subarray(from) };
    }
    return {
      play: (response) => {
        response.writeHead(200, { 'content-length': body.length }).write(body.subarray(0, half), () => then(response));
      },
    };
  };
  return { ranges, answer };
}

for (const isConfined of [false, true]) {
  const by = isConfined ? 'a runner in a network of its own' : 'a runner of the platform';
  test(`a layer whose connection breaks or goes silent is gone on with where it was, by ${by}`, async () => {
    for (const then of [(response: ServerResponse) => void response.destroy(), () => undefined]) {
      const { ranges, answer } = halfALayer(then);
      await using place = await openPlace(answer);
      const { layers: stored } = await place.fetchImage({}, { isConfined, patience: slowly });
      assert.deepEqual(ranges, [undefined, `bytes=${half}-`]);
      assert.equal(await text(await place.blobs.get(stored[0]?.digest ?? '')), 'layer');
    }
  });

  test(`a layer may take longer than an answer, for ${by}`, async () => {
    // An answer that a busy machine gives late would be asked for again.
    const { ranges, answer } = halfALayer((response) => void setTimeout(() => response.end('yer'), 3_000));
    await using place = await openPlace(answer);
    await place.fetchImage({}, { isConfined, patience: { answerMs: 2_000, silenceMs: 20_000 } });
    assert.deepEqual(ranges, [undefined]);
  });
}

test('a registry that gives no parts is asked for all of a layer again', async () => {
  const { ranges, answer } = halfALayer((response) => void response.destroy(), { givesParts: false });
  await using place = await openPlace(answer);
  await place.fetchImage({}, { patience: slowly });
  assert.deepEqual(ranges, [undefined, `bytes=${half}-`, undefined]);
});

test('a registry that says nothing is told as that', async () => {
  const patience = { answerMs: 50, silenceMs: 200 };
  const files = registryFiles();
  let isSilent = true;
  await using place = await openPlace((path) => {
    const body = files[path];
    if (!isSilent) return body === undefined ? undefined : { body };
    isSilent = false;
    return { play: () => undefined };
  });
  await place.fetchImage({}, { patience });
  assert.match(place.lines.join('\n'), /did not answer within 0\.05 s; trying again for a minute/);
});

test('what is not there, damaged or not to be run is told', async () => {
  await using empty = await openPlace(() => undefined);
  await assert.rejects(empty.fetchImage(), isError('invalid', /has no team\/app\/1\.4/));
  const files = registryFiles();
  const config = Object.keys(files).find((path) => path.startsWith('blobs/'));
  await using damaged = await openPlace((path) => {
    const body = files[path];
    return body === undefined ? undefined : { body: path === config ? `${String(body)} ` : body };
  });
  await assert.rejects(damaged.fetchImage(), isError('invalid', /answered sha256:.* when asked for sha256:/));
  const layer = digestOf('layer');
  await using wrong = await openPlace((path) => {
    const body = files[path];
    return body === undefined ? undefined : { body: path === `blobs/${layer}` ? 'other' : body };
  });
  await assert.rejects(wrong.fetchImage(), isError('invalid', /sha256/));
  await using foreign = await openPlace(() => ({
    body: JSON.stringify({ manifests: [{ digest: layer, size: 1, platform: { os: 'linux', architecture: 's390x' } }] }),
  }));
  await assert.rejects(foreign.fetchImage(), isError('invalid', /not made for linux\/.*, but for linux\/s390x/));
});

test('references name their registry', () => {
  const digest = `sha256:${'a'.repeat(64)}`;
  const read: [string, string][] = [
    ['registry.example.com/team/app:1.4', 'registry.example.com team/app 1.4'],
    ['localhost/app', 'localhost app latest'],
    ['10.0.0.5:5000/a/b/c', '10.0.0.5:5000 a/b/c latest'],
    [`r.example.com/app:1@${digest}`, `r.example.com app ${digest}`],
  ];
  for (const [given, wanted] of read) {
    const { registry, repository, version } = parseReference(given);
    assert.equal(`${registry} ${repository} ${version}`, wanted);
  }
  for (const bad of [
    'redis',
    'redis:7',
    'team/app',
    'r.example.com/',
    'r.example.com/App',
    'https://r.example.com/a',
    'r.example.com/../a',
    `r.example.com/a@sha256:1`,
  ]) {
    assert.throws(() => parseReference(bad), isError('invalid', /REGISTRY\/NAME:TAG/), bad);
  }
});

test('no more of a layer is taken than its manifest says, and no image that no host takes', async () => {
  const files = registryFiles();
  const layer = Object.keys(files).find((path) => Buffer.isBuffer(files[path])) ?? '';
  let sentBytes = 0;
  await using place = await openPlace((path) => {
    const body = files[path];
    if (path !== layer) return body === undefined ? undefined : { body };
    const mebibyte = Buffer.alloc(2 ** 20);
    return {
      play(response) {
        const send = () => {
          while (!response.destroyed && sentBytes < 64 * 2 ** 20) {
            sentBytes += mebibyte.length;
            if (!response.write(mebibyte)) return;
          }
          response.end();
        };
        response.on('drain', send);
        send();
      },
    };
  });
  await assert.rejects(place.fetchImage(), isError('invalid', /sends more than the \d+ bytes that sha256:/));
  assert.ok(sentBytes < 64 * 2 ** 20, 'nor is the rest waited for');

  const own = Object.keys(files).find((path) => path.startsWith('manifests/sha256:')) ?? '';
  const manifest: { layers: { size: number }[] } = JSON.parse(String(files[own]));
  const large = { ...manifest, layers: manifest.layers.map((one) => Object.assign(one, { size: 25 * 2 ** 30 })) };
  await using other = await openPlace((path) => {
    const body = path.startsWith('manifests/') ? JSON.stringify(large) : files[path];
    return body === undefined ? undefined : { body };
  });
  await assert.rejects(other.fetchImage(), isError('invalid', /GiB, compressed: no host takes more than 20.0 GiB/));
});
