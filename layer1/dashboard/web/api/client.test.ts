import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { apps, deployments } from '@flynn/controller/api';
import { apiUrl, createApi } from './client.ts';
import { asFailure, Failure, failureOf, isPassing } from './failure.ts';

type Asked = { url: string; method: string | undefined; headers: Headers; body: unknown };

function apiOf(answer: (asked: Asked) => Response | Promise<Response>) {
  const asked: Asked[] = [];
  let over = 0;
  const api = createApi({
    fetch: async (url, { method, headers, body }) => {
      const one = { url, method, headers: new Headers(headers), body };
      asked.push(one);
      return answer(one);
    },
    onSessionOver: () => {
      over += 1;
    },
    newId: () => `id${asked.length}`,
  });
  return { api, asked, isOver: () => over };
}

const denied = { code: 'denied', message: 'you are a viewer of shop: ask for more', detail: { role: 'viewer' } };

describe('calling the API', () => {
  it('fills the path of the route, and leaves out what is not said in the query', async () => {
    const { api, asked } = apiOf(() => Response.json([]));
    await api.call<typeof deployments.list>('GET /apps/:app/deployments', {
      params: { app: 'a b' },
      query: { limit: 5, after: undefined },
    });
    assert.equal(asked[0]?.url, '/api/apps/a%20b/deployments?limit=5');
    assert.equal(asked[0]?.headers.has('idempotency-key'), false);
  });

  it('names each POST, or takes the name it was given', async () => {
    const { api, asked } = apiOf(() => Response.json({}));
    await api.call<typeof apps.create>('POST /apps', { body: { name: 'shop' } });
    await api.call<typeof apps.create>('POST /apps', { body: { name: 'shop' } }, { once: 'wish' });
    assert.deepEqual(
      asked.map(({ headers }) => headers.get('idempotency-key')),
      ['id0', 'wish'],
    );
    assert.equal(asked[0]?.body, '{"name":"shop"}');
  });

  it('throws what the API refuses, in its words', async () => {
    const { api } = apiOf(() => Response.json(denied, { status: 403 }));
    await assert.rejects(api.call<typeof apps.list>('GET /apps', {}), {
      code: 'denied',
      message: denied.message,
      detail: denied.detail,
    });
  });

  it('tells that the session is over, but not where a login is refused', async () => {
    const refusal = { code: 'unauthenticated', message: 'this token opens nothing', detail: {} };
    const { api, isOver } = apiOf(() => Response.json(refusal, { status: 401 }));
    await assert.rejects(api.logIn('x'), { code: 'unauthenticated' });
    assert.equal(await api.hasSession(), false);
    assert.equal(isOver(), 0);
    await assert.rejects(api.call<typeof apps.list>('GET /apps', {}), { code: 'unauthenticated' });
    assert.equal(isOver(), 1);
  });

  it('asks nothing more once the session is over, until somebody is logged in again', async () => {
    let isIn = false;
    const refusal = { code: 'unauthenticated', message: 'the login is over', detail: {} };
    const { api, asked, isOver } = apiOf(({ url }) => {
      if (url === '/session') isIn = true;
      return isIn ? Response.json([]) : Response.json(refusal, { status: 401 });
    });
    for (const _ of [1, 2]) await assert.rejects(api.call<typeof apps.list>('GET /apps', {}), refusal);
    assert.deepEqual([asked.length, isOver()], [1, 1]);
    await api.logIn('x');
    assert.deepEqual(await api.call<typeof apps.list>('GET /apps', {}), []);
  });

  it('takes no answer to what was asked before a login for the end of that', async () => {
    const { promise, resolve } = Promise.withResolvers<Response>();
    const { api, isOver } = apiOf(({ url }) => (url === '/session' ? Response.json({}) : promise));
    const late = api.call<typeof apps.list>('GET /apps', {});
    await api.logIn('x');
    resolve(Response.json({ code: 'unauthenticated', message: 'over', detail: {} }, { status: 401 }));
    await assert.rejects(late, { code: 'unauthenticated' });
    assert.equal(isOver(), 0);
  });

  it('takes a connection that did not come about for one that may come about later', async () => {
    const { api } = apiOf(() => Promise.reject(new TypeError('Failed to fetch')));
    await assert.rejects(api.call<typeof apps.list>('GET /apps', {}), { code: 'unavailable' });
  });

  it('sends a token in the body, never in an address', async () => {
    const { api, asked } = apiOf(() => Response.json({}));
    await api.logIn('flynn_secret');
    assert.deepEqual(
      { ...asked[0], headers: undefined },
      { url: '/session', method: 'POST', headers: undefined, body: '{"token":"flynn_secret"}' },
    );
  });

  it('refuses parameters that would lead elsewhere', () => {
    for (const app of ['', '.', '..'])
      assert.throws(() => apiUrl('/apps/:app', { params: { app } }), { code: 'invalid' });
    assert.equal(apiUrl('/apps/:app', { params: { app: '../x' } }), '/api/apps/..%2Fx');
  });
});

describe('failures', () => {
  it('of a body that somebody in between wrote say what the status says', () => {
    assert.equal(failureOf(502, '<html>').code, 'unavailable');
    assert.equal(failureOf(418, undefined).code, 'invalid');
    assert.equal(failureOf(500, { code: 'nonsense', message: 'x' }).code, 'internal');
  });

  it('pass or do not', () => {
    const passing = (['unavailable', 'timeout', 'exhausted', 'internal'] as const).map((code) =>
      isPassing(new Failure(code, '')),
    );
    const lasting = (['denied', 'conflict', 'not_found', 'invalid'] as const).map((code) =>
      isPassing(new Failure(code, '')),
    );
    assert.deepEqual([passing, lasting], [Array(4).fill(true), Array(4).fill(false)]);
    const reduced = new Failure('denied', 'a role was reduced while this was answered', { retryAfterMs: 1_000 });
    assert.ok(isPassing(reduced), 'what says when to come again');
    assert.equal(asFailure(new DOMException('', 'TimeoutError')).code, 'timeout');
  });
});
