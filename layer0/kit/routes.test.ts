import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { z } from 'zod';
import { hasCode } from './errors.ts';
import { defineRoute, linesType, urlOf } from './routes.ts';

const summary = 'for a test';
const route = defineRoute({ method: 'GET', path: '/apps/:app/files/*rest', response: z.string(), summary });

test('a route knows its parameters, its kind, and asks for a key unless told otherwise', () => {
  assert.deepEqual(route.params, ['app', 'rest']);
  assert.equal(route.kind, 'json');
  assert.equal(route.access, 'key');
  const open = defineRoute({ method: 'GET', path: '/', response: 'events', summary, access: 'open' });
  assert.deepEqual([open.kind, open.access, open.params], ['events', 'open', []]);
});

test('a route says what goes in and comes out, and only a stream has types of its own', () => {
  const given = { method: 'POST', path: '/x', summary } as const;
  const put = defineRoute({ ...given, body: 'stream', response: z.string() });
  assert.deepEqual([put.bodyTypes, put.responseType], [['application/octet-stream'], 'application/json']);
  const lines = defineRoute({ ...given, body: z.string(), response: 'stream', responseType: linesType });
  assert.deepEqual([lines.bodyTypes, lines.responseType], [['application/json'], 'application/x-ndjson']);
  const none = defineRoute({ ...given, response: 'empty' });
  assert.deepEqual([none.bodyTypes, none.responseType, none.isResumable], [[], undefined, false]);
  assert.ok(defineRoute({ ...given, response: 'events', isResumable: true }).isResumable);
  assert.throws(() => defineRoute({ ...given, response: 'empty', isResumable: true }), /only events/);
  assert.throws(() => defineRoute({ ...given, response: z.string(), responseType: linesType }), /only an answer/);
  assert.throws(() => defineRoute({ ...given, bodyTypes: [linesType], response: 'empty' }), /only a body/);
});

test('parameters come back from the URL as they went in', () => {
  fc.assert(
    fc.property(
      fc.string({ minLength: 1, unit: 'grapheme' }).filter((text) => text !== '.' && text !== '..'),
      (app) => {
        const { pathname, search } = new URL(urlOf(route, { params: { app, rest: 'a/b c' } }), 'http://x');
        const [, , segment, ...rest] = pathname.split('/');
        assert.equal(decodeURIComponent(segment ?? ''), app);
        assert.deepEqual(rest, ['files', 'a', 'b%20c']);
        assert.equal(search, '');
      },
    ),
  );
});

test('a query repeats arrays and leaves out what is undefined', () => {
  const url = urlOf(route, {
    params: { app: 'a', rest: 'r' },
    query: { limit: 3, follow: false, tag: ['x', 'y&z'], none: undefined, at: new Date(0) },
  });
  assert.equal(url, '/apps/a/files/r?limit=3&follow=false&tag=x&tag=y%26z&at=1970-01-01T00%3A00%3A00.000Z');
});

test('a parameter that would change the path is refused', () => {
  for (const params of [
    { app: '', rest: 'r' },
    { app: '..', rest: 'r' },
    { app: 'a', rest: 'x/../y' },
    { app: 'a', rest: '' },
  ]) {
    assert.throws(
      () => urlOf(route, { params }),
      (error) => hasCode(error, 'invalid'),
    );
  }
});

test('paths and upgrades that cannot work are refused where they are defined', () => {
  assert.throws(() => defineRoute({ method: 'GET', path: 'apps', response: 'empty', summary }), /must start with \//);
  assert.throws(() => defineRoute({ method: 'GET', path: '/*rest/x', response: 'empty', summary }), /only at its end/);
  assert.throws(
    () => defineRoute({ method: 'POST', path: '/x', body: 'stream', response: 'upgrade', summary }),
    /an upgrade has no request body/,
  );
});
