import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Answer } from '../exchange.ts';
import { World, ended, recordOf } from './testing.ts';
import type { Asking } from './testing.ts';

function answerTo(world: World, asking: Asking = {}): Answer {
  const verdict = world.ask(asking);
  assert.ok('answer' in verdict, 'it was let through');
  return verdict.answer;
}

describe('a request that is not let through', () => {
  test('before the routes are known the router says that it is starting, then that there is no such host', async () => {
    const world = new World();
    assert.equal(answerTo(world).code, 'starting');
    await world.serve();
    const answer = answerTo(world, { host: 'other.test' });
    assert.deepEqual([answer.status, answer.code], [404, 'unknown-host']);
    assert.deepEqual(world.counters.refusals, { starting: 1, 'unknown-host': 1 });
  });

  test('is told so in the form that it asks for', async () => {
    const world = new World();
    await world.serve();
    const of = (accept?: string) =>
      answerTo(world, { host: 'other.test', fields: accept === undefined ? {} : { accept } });
    assert.match(of().body, /^404 Not Found\nThere is no app at this address.*\nrequest id-\d+\n$/);
    assert.match(of('text/html,application/xhtml+xml,*/*;q=0.8').body, /^<!doctype html>.*<h1>404 Not Found<\/h1>/s);
    const json = of('application/json, text/html');
    assert.equal(recordOf(json.fields)['content-type'], 'application/json');
    assert.equal(JSON.parse(json.body).code, 'unknown-host');
    assert.equal(recordOf(json.fields)['cache-control'], 'no-store');
  });

  test('during maintenance only those who are allowed get through, on every family of addresses', async () => {
    const world = new World();
    await world.serve({
      http: { maintenance: { allow: ['198.51.100.0/24', '2001:db8::/32'] }, pages: { '5xx': 'any' } },
    });
    const answer = answerTo(world);
    assert.deepEqual([answer.status, answer.code, answer.body], [503, 'maintenance', 'any']);
    await world.serve({ http: { maintenance: {}, pages: { '5xx': 'any', maintenance: '<p>soon' } } });
    assert.equal(answerTo(world).body, '<p>soon');
    assert.equal(answerTo(world, { from: '198.51.100.7' }).code, 'maintenance');
    await world.serve({ http: { maintenance: { allow: ['198.51.100.0/24', '2001:db8::/32'] } } });
    for (const from of ['198.51.100.7', '2001:db8::7']) assert.ok('exchange' in world.ask({ from }), from);
  });

  test('a body that says it is too large is refused before it is sent', async () => {
    const world = new World();
    await world.serve({ http: { limits: { bodyBytes: 100 } } });
    assert.equal(answerTo(world, { method: 'POST', body: 101 }).status, 413);
    const exchange = world.exchange({ method: 'POST', body: 'until-end' });
    assert.equal(exchange.limits.bodyBytes, 100);
    assert.equal(exchange.answerFor('body-too-large').status, 413);
    world.exchange({ method: 'POST', body: 100 });
  });

  test('who asks too often is told when to come back; others are not kept waiting', async () => {
    const world = new World();
    await world.serve({ http: { limits: { requestsPerSecond: 0.5, burst: 2 } } });
    const v6 = ['2001:db8::1', '2001:db8::2', '2001:db8::3'];
    for (const [index, from] of v6.entries()) {
      const verdict = world.ask({ from });
      assert.equal('answer' in verdict, index === 2, 'one network of IPv6 is one client');
    }
    world.exchange();
    world.exchange();
    const answer = answerTo(world);
    assert.deepEqual([answer.status, answer.code], [429, 'rate-limited']);
    assert.equal(recordOf(answer.fields)['retry-after'], '2');
    world.exchange({ from: '192.0.2.2' });
    world.nowMs += 2_000;
    world.exchange();
    assert.equal(answerTo(world).code, 'rate-limited');
  });

  test('a clock that is set back an hour keeps nobody out, nor any longer', async () => {
    const world = new World();
    await world.serve({ http: { limits: { requestsPerSecond: 1, burst: 1 } } });
    world.exchange();
    world.nowMs += 2_000;
    world.setBackMs = 3_600_000;
    world.exchange();
    const { fields } = answerTo(world);
    assert.equal(recordOf(fields)['retry-after'], '1');
  });

  test('requests at the same time are counted until they have ended, also while the route changes', async () => {
    const world = new World();
    const limits = { connectionsPerClient: 2, connections: 3 };
    await world.serve({ http: { limits } });
    const [first] = [world.exchange(), world.exchange()];
    assert.equal(answerTo(world).status, 429);
    await world.serve({ http: { limits, sticky: true } });
    assert.equal(answerTo(world).code, 'too-many-requests-at-once');
    world.exchange({ from: '192.0.2.2' });
    const full = answerTo(world, { from: '192.0.2.3' });
    assert.deepEqual([full.status, full.code, recordOf(full.fields)['retry-after']], [503, 'busy', '1']);
    first?.end(ended(0, { how: 'client-gone' }));
    world.exchange({ from: '192.0.2.3' });
  });

  test('what one limit refuses counts for no other', async () => {
    const world = new World();
    await world.serve({ http: { limits: { requestsPerSecond: 1, burst: 1, connections: 1 } } });
    const exchange = world.exchange();
    assert.equal(answerTo(world, { from: '192.0.2.2' }).code, 'busy');
    exchange.end(ended(200));
    assert.equal(answerTo(world).code, 'rate-limited');
    world.exchange({ from: '192.0.2.2' }).end(ended(200));
  });

  test('one of several workers counts its part of all, and each client whole', async () => {
    const world = new World({ share: 0.5 });
    const limits = { requestsPerSecond: 3, connections: 4, connectionsPerClient: 2 };
    await world.serve({ http: { limits } });
    world.exchange().end(ended(200));
    world.exchange();
    world.exchange();
    assert.equal(answerTo(world, { from: '192.0.2.2' }).code, 'busy');
  });
});

describe('a redirect', () => {
  const locationOf = (answer: Answer) => [answer.status, recordOf(answer.fields)['location']];

  test('leads to https with everything that was asked, and not when it is there', async () => {
    const world = new World();
    await world.serve({ http: { https: { redirect: true, hstsSeconds: 60, hstsSubdomains: true } } });
    const answer = answerTo(world, { host: 'app.test:8080', target: '/a%20b?c=d&e', method: 'POST' });
    assert.deepEqual(locationOf(answer), [308, 'https://app.test/a%20b?c=d&e']);
    assert.equal(answer.code, '');
    assert.equal(recordOf(answer.fields)['strict-transport-security'], undefined);
    const { fields } = (await world.get({ isTls: true })) ?? { fields: [] };
    assert.equal(recordOf(fields)['strict-transport-security'], 'max-age=60; includeSubDomains');
    assert.deepEqual(world.counters.refusals, {});
  });

  test('names the port of https where it is another', async () => {
    const world = new World({ httpsPort: () => 8443 });
    await world.serve({ domain: '[::1]', http: { https: { redirect: true } } });
    assert.deepEqual(locationOf(answerTo(world, { host: '[::1]:80' })), [308, 'https://[::1]:8443/']);
  });

  test('leads to the canonical host, in one step with https', async () => {
    const world = new World();
    await world.serve({ domain: 'www.app.test', http: { canonicalHost: 'app.test', https: { redirect: true } } });
    await world.serve({ id: 'r2', domain: '*.other.test', http: { canonicalHost: 'www.other.test' } });
    assert.deepEqual(locationOf(answerTo(world, { host: 'www.app.test', target: '/x?y' })), [
      308,
      'https://app.test/x?y',
    ]);
    const other = answerTo(world, { host: 'a.other.test:8080', target: '*', method: 'OPTIONS' });
    assert.deepEqual(locationOf(other), [308, 'http://www.other.test:8080/']);
    assert.ok('exchange' in world.ask({ host: 'www.other.test' }));
  });

  test('a trusted proxy that has ended TLS is not sent there again', async () => {
    const world = new World({ trusted: ['10.0.0.0/8'] });
    await world.serve({ http: { https: { redirect: true } } });
    const fields = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '192.0.2.9' };
    assert.ok('exchange' in world.ask({ from: '10.0.0.1', fields }));
    assert.equal(answerTo(world, { from: '192.0.2.1', fields }).status, 308, 'anybody could say so');
  });
});

test('what a front refuses before there is a head is counted and told like the rest', () => {
  const world = new World();
  const client = { address: '192.0.2.1', port: 1, localPort: 80, isTls: false };
  const answer = world.policy.refuse(400, 'bad-request', 'It makes <no> sense.', client);
  assert.deepEqual([answer.status, answer.code], [400, 'bad-request']);
  assert.match(answer.body, /It makes <no> sense/);
  assert.equal(world.counters.refusals['bad-request'], 1);
  world.accessLog.flush();
  const { status, code, client: from } = JSON.parse(world.lines[0] ?? '');
  assert.deepEqual([status, code, from], [400, 'bad-request', '192.0.2.1']);
});
