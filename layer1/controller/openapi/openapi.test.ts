import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCodes } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import { startLoopback } from '@flynn/kit/loopback';
import { routes as logRoutes } from '@flynn/log-aggregator/api';
import { Readable } from 'node:stream';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { releases } from '../api.ts';
import { keepsAnswers } from '../audit/audited.ts';
import { layers } from '../collection/api-layers.ts';
import { operations } from '../operations/api.ts';
import { startTestController } from '../testing.ts';
import { TestProvider } from '../providers/test-provider.ts';
import { operationIdOf } from './document.ts';
import { examples } from './examples.ts';
import { documentSchema, fuzzedRequest, randomOf } from './fuzz.ts';
import { problemsOf } from './rules.ts';

async function documentOf(url: string): Promise<Record<string, unknown>> {
  const answer = await fetch(`${url}/openapi.json`);
  assert.equal(answer.status, 200);
  return (await answer.json()) as Record<string, unknown>;
}

test('the document is served to everybody, keeps the rules of OpenAPI 3.1, and has every route', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const document = await documentOf(world.url);
  assert.deepEqual(await problemsOf(document), []);
  const { paths } = documentSchema.parse(document);
  const described = Object.values(paths).flatMap((operations) =>
    Object.values(operations).map(({ operationId }) => operationId),
  );
  assert.deepEqual(described.sort(), world.web.handlers.map(({ route }) => operationIdOf(route)).sort());
  for (const { route } of world.web.handlers) assert.ok(route.summary.length > 3, route.path);
});

test('the rules find what breaks them', async () => {
  const ok = { description: 'x' };
  const get = { operationId: 'a', responses: { '200': ok } };
  const base = { openapi: '3.1.0', info: { title: 't', version: '1' }, paths: { '/a': { get } } };
  assert.deepEqual(await problemsOf(base), []);
  const broken: [Record<string, unknown>, RegExp][] = [
    [{ ...base, openapi: '3.0.0' }, /3\.1/],
    [{ ...base, info: {} }, /title/],
    [{ ...base, extra: 1 }, /extra/],
    [{ ...base, paths: { a: { get } } }, /"\/paths".*unevaluatedProperties/],
    [{ ...base, paths: { '/a': { get }, '/b': { get } } }, /twice/],
    [{ ...base, paths: { '/a/{b}': { get } } }, /\{b\}/],
    [{ ...base, paths: { '/a': { get: { ...get, responses: {} } } } }, /a\/get\/responses/],
    [{ ...base, paths: { '/a': { get: { ...get, responses: { ok } } } } }, /a\/get\/responses/],
    [{ ...base, paths: { '/a': { get: { ...get, responses: { '200': {} } } } } }, /description/],
    [
      { ...base, paths: { '/a': { get: { ...get, responses: { '200': { $ref: '#/components/responses/x' } } } } } },
      /resolve #\/components\/responses\/x/,
    ],
    [{ ...base, paths: { '/a': { get: { ...get, security: [{ key: [] }] } } } }, /security scheme/],
    [
      { ...base, paths: { '/a': { get: { ...get, parameters: [{ name: 'p', in: 'body', schema: {} }] } } } },
      /parameters\/0\/in/,
    ],
    [{ ...base, paths: { '/a': { get: { ...get, parameters: [{ name: 'p', in: 'query' }] } } } }, /schema/],
    [{ ...base, paths: { '/a': { get: { ...get, requestBody: {} } } } }, /content/],
    [
      {
        ...base,
        paths: {
          '/a': { get: { ...get, requestBody: { content: { 'application/json': { schema: { type: 'text' } } } } } },
        },
      },
      /type/,
    ],
    [
      {
        ...base,
        paths: {
          '/a': { get: { ...get, requestBody: { content: { 'application/json': { schema: { pattern: '(' } } } } } },
        },
      },
      /regular expression/,
    ],
  ];
  for (const [document, expected] of broken) assert.match((await problemsOf(document)).join('\n'), expected);
});

/** The same keys, and values of the same kinds. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, inner]) => [name, shapeOf(inner)]),
  );
}

test('every example is taken by the running server, which answers as the example says', async () => {
  await using provider = await TestProvider.start();
  await using world = await startTestController();
  const routes = new Map(world.web.handlers.map(({ route }) => [operationIdOf(route), route]));
  for (const [id, example] of Object.entries(examples)) {
    const route = routes.get(id);
    assert.ok(route !== undefined, `${id} is no operation`);
    const path = route.path.replaceAll(/:(\w+)/g, (_, name: string) => example.params?.[name] ?? 'missing');
    const headers = { authorization: `Bearer ${world.userKey}`, 'content-type': 'application/json' };
    const sent = JSON.stringify(example.body)?.replace('http://postgres.flynn/resources', provider.url);
    const body = sent === undefined ? {} : { body: sent };
    const answer = await fetch(world.url + path, { method: route.method, headers, ...body });
    const json: unknown = await answer.json();
    assert.equal(answer.status, 200, `${id}: ${JSON.stringify(json)}`);
    assert.deepEqual(shapeOf(json), shapeOf(example.response), id);
  }
  const creates = world.web.handlers.filter(
    ({ route }) => route.method === 'POST' && /^\/(apps|users|teams|tokens|artifacts)$/.test(route.path),
  );
  for (const { route } of creates)
    assert.ok(Object.hasOwn(examples, operationIdOf(route)), `${route.path} has no example`);
});

function essenceOf(type: string): string {
  return type.split(';', 1)[0] ?? '';
}

test('the document says of each route what it takes and gives, and the two headers where they count', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { paths } = documentSchema.parse(await documentOf(world.url));
  const bodyOf = (path: string) => Object.keys(paths[path]?.['post']?.requestBody?.content ?? {});
  assert.deepEqual(bodyOf('/layers'), ['application/octet-stream']);
  assert.deepEqual(bodyOf('/runners/{runner}/blobs'), ['application/octet-stream']);
  assert.deepEqual(bodyOf('/hooks/{hook}'), ['application/json', 'application/x-www-form-urlencoded']);
  const isNeeded = (path: string) => paths[path]?.['post']?.requestBody?.required;
  assert.deepEqual(['/apps', '/layers', '/backups/datastores'].map(isNeeded), [true, true, false]);
  const typeOf = (path: string, method = 'get') => Object.keys(paths[path]?.[method]?.responses['200']?.content ?? {});
  assert.deepEqual(typeOf('/metrics'), ['text/plain; version=0.0.4; charset=utf-8']);
  assert.deepEqual(typeOf('/apps/{app}/log'), ['application/x-ndjson']);
  assert.deepEqual(typeOf('/backups/download', 'post'), ['application/x-tar']);
  const bytes = ['application/octet-stream'];
  assert.deepEqual(typeOf('/artifacts/{artifact}/layers/{digest}'), bytes);
  assert.deepEqual(typeOf('/resources/{resource}/backups/{backup}/download', 'post'), bytes);
  const naming = (header: string) =>
    Object.entries(paths).flatMap(([path, operations]) =>
      Object.entries(operations)
        .filter(([, { parameters }]) => parameters.some(({ name }) => name === header))
        .map(([method]) => `${method} ${path}`),
    );
  const resumable = [
    'get /events',
    'get /operations/{operation}/log',
    'get /routes/events',
    'get /watch/{group}/{version}/{kind}',
  ];
  assert.deepEqual(naming('Last-Event-ID').sort(), resumable);
  const keyed = naming('Idempotency-Key');
  assert.ok(keyed.includes('post /apps') && keyed.every((one) => one.startsWith('post ')));
  const unkeyed = ['/layers', '/hooks/{hook}', '/backups/download', '/runners/{runner}/blobs', '/runners'];
  assert.deepEqual(
    unkeyed.filter((path) => keyed.includes(`post ${path}`)),
    [],
  );
});

test('streams go on after Last-Event-ID where the document says so, and begin anew elsewhere', async () => {
  await using world = await startTestController();
  const { deployment } = await world.deployApp('shop', { web: { ports: [{ port: 80 }] } });
  const ask = async (path: string) => {
    const headers = { authorization: `Bearer ${world.userKey}`, 'last-event-id': 'no id of any stream' };
    const answer = await fetch(world.url + path, { headers, signal: AbortSignal.timeout(60_000) });
    await answer.body?.cancel();
    return answer.status;
  };
  for (const path of ['/events', '/watch/flynn/v1/App', '/routes/events']) assert.equal(await ask(path), 400, path);
  assert.equal(await ask(`/deployments/${deployment.id}/events`), 200);
});

test('what has a stream for a body is carried out however often it is sent: its key says nothing of what was in it', () => {
  const { put } = layers;
  assert.deepEqual([put, releases.create].map(keepsAnswers), [false, true]);
});

test('a field that the API refuses is one that the document does not allow', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { paths } = documentSchema.parse(await documentOf(world.url));
  const schema = paths['/apps']?.['post']?.requestBody?.content['application/json']?.schema;
  assert.ok(typeof schema === 'object' && schema !== null);
  const isDescribed = new Ajv2020({ strict: false, validateFormats: false }).compile(schema);
  const send = async (body: unknown) => {
    const headers = { authorization: `Bearer ${world.userKey}`, 'content-type': 'application/json' };
    return (await fetch(`${world.url}/apps`, { method: 'POST', headers, body: JSON.stringify(body) })).status;
  };
  assert.deepEqual([isDescribed({ name: 'shop' }), await send({ name: 'shop' })], [true, 200]);
  const misspelt = { name: 'shop2', metta: {} };
  assert.deepEqual([isDescribed(misspelt), await send(misspelt)], [false, 400]);
});

test(
  'whatever is sent to any route, the API answers as the document says or with a clear error of the caller',
  { timeout: 180_000 },
  async () => {
    await using logs = await startLoopback([handle(logRoutes.read, async () => ({ body: Readable.from([]) }))]);
    await using world = await startTestController({ logAggregatorUrl: logs.server.url });
    const { app, release, deployment } = await world.deployApp('shop', { web: { ports: [{ port: 80 }] } });
    await world.client.call(releases.create, { params: { app: 'shop' }, body: {} });
    const pushed = { pushId: 'p', sourceDigest: 'sha256:x', commit: 'c', branch: 'main' };
    const [operation] = await world.client.call(operations.push, { params: { app: 'shop' }, body: pushed });
    const [job] = await world.jobsOf('shop', 1);
    const known = [
      'shop',
      app.id,
      release.id,
      'v1',
      deployment.id,
      operation?.id ?? '',
      job?.id ?? '',
      'host1',
      'web',
      'shop-web',
      'user',
      'ann',
      'shop.example.com',
    ];
    const { paths } = documentSchema.parse(await documentOf(world.url));
    const all = Object.entries(paths).flatMap(([path, operations]) =>
      Object.entries(operations).map(([method, operation]) => [path, method, operation] as const),
    );
    const random = randomOf(20_261_121);
    const seen = new Map<number, number>();
    const perOperation = 25;
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    for (const one of all) {
      const [path, method, operation] = one;
      const schema = operation.requestBody?.content['application/json']?.schema;
      const isDescribed = typeof schema === 'object' && schema !== null ? ajv.compile(schema) : undefined;
      // Forgetting the app would leave nothing to be reached: that is asked for last, and of others.
      const names = method === 'delete' ? known.filter((name) => name !== 'shop' && name !== app.id) : known;
      const requests = Array.from({ length: perOperation }, () => fuzzedRequest(one, names, random));
      await Promise.all(
        requests.map(async (request) => {
          const headers = { ...request.headers, authorization: `Bearer ${world.userKey}` };
          const init = {
            method: request.method,
            headers,
            ...(request.body === undefined ? {} : { body: request.body }),
          };
          const lasts = /claim$|events$|\/log$|\/log-feed$|^\/watch\//.test(path);
          const stop = new AbortController();
          const timer = setTimeout(() => stop.abort(), lasts ? 300 : 60_000);
          try {
            const answer = await fetch(world.url + request.url, { ...init, signal: stop.signal });
            seen.set(answer.status, (seen.get(answer.status) ?? 0) + 1);
            if (answer.status >= 400) {
              const text = await answer.text();
              const what = `${request.method} ${request.url} ${request.body ?? ''} → ${answer.status} ${text}`;
              // There is no blob store beside this controller, and it says so.
              const isStoreAway = /^\/(backups|collections|layers)|\/layers\//.test(path) && answer.status === 503;
              assert.ok(answer.status < 500 || isStoreAway, what);
              const { code, message } = JSON.parse(text) as { code: string; message: string };
              assert.ok(errorCodes.some((knownCode) => knownCode === code) && message.length > 5, what);
            } else {
              const said = Object.keys(operation.responses[answer.status]?.content ?? {}).map(essenceOf);
              const type = answer.headers.get('content-type');
              const what = `${request.method} ${request.url} ${request.body ?? ''} → ${answer.status} ${type ?? ''}`;
              assert.deepEqual(type === null ? [] : [essenceOf(type)], said, what);
              const isLeftOut = (request.body ?? '') === '' && operation.requestBody?.required === false;
              const isAsSaid =
                isDescribed === undefined || isLeftOut || isDescribed(JSON.parse(request.body ?? 'null'));
              assert.ok(isAsSaid, what);
              if (lasts) stop.abort();
              else await answer.arrayBuffer();
            }
          } catch (error) {
            if (!lasts || !(error instanceof Error) || error.name !== 'AbortError') throw error;
          } finally {
            clearTimeout(timer);
          }
        }),
      );
    }
    const good = (seen.get(200) ?? 0) + (seen.get(204) ?? 0);
    assert.ok(good > all.length, `only ${good} requests got through to the code behind the checks`);
    assert.ok((seen.get(400) ?? 0) > all.length, JSON.stringify([...seen]));
  },
);
