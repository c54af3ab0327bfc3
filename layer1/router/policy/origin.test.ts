/** What is a backend told of where a request is from, and of what it was? */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { linesOf } from './origin.ts';
import { World, recordOf } from './testing.ts';

describe('what is passed on', () => {
  test('says where the request is from', async () => {
    const world = new World();
    await world.serve();
    const { requestFields, requestId, removedFields } = world.exchange({ host: 'app.test:8080', isTls: true });
    assert.deepEqual(recordOf(requestFields), {
      'x-request-id': requestId,
      'x-request-start': String(world.nowMs),
      'x-forwarded-for': '192.0.2.1',
      'x-forwarded-proto': 'https',
      'x-forwarded-port': '443',
      'x-forwarded-host': 'app.test:8080',
      forwarded: 'for=192.0.2.1;host="app.test:8080";proto=https',
    });
    for (const name of ['proxy', 'x_forwarded_for', 'x-flynn-client', 'x_flynn_client'])
      assert.ok(removedFields.has(name));
    assert.match(
      recordOf(world.exchange({ from: '2001:db8::1' }).requestFields)['forwarded'] ?? '',
      /^for="\[2001:db8::1\]";/,
    );
  });

  const said = {
    'x-forwarded-for': '203.0.113.5, 10.0.0.9',
    'x-forwarded-proto': 'https',
    'x-forwarded-host': 'public.test',
    'x-forwarded-port': '443',
    forwarded: 'for=203.0.113.5',
  };

  test('appends to what a client says of others, and takes its word for nothing', async () => {
    const world = new World();
    await world.serve();
    const fields = recordOf(world.exchange({ fields: said }).requestFields);
    assert.equal(fields['x-forwarded-for'], '203.0.113.5, 10.0.0.9, 192.0.2.1');
    assert.equal(fields['forwarded'], 'for=203.0.113.5, for=192.0.2.1;host="app.test";proto=http');
    assert.deepEqual(
      [fields['x-forwarded-proto'], fields['x-forwarded-host'], fields['x-forwarded-port']],
      ['http', 'app.test', '80'],
    );
  });

  test('with trusted proxies takes theirs, and drops what all others say', async () => {
    const world = new World({ trusted: ['10.0.0.0/8'] });
    await world.serve({ http: { limits: { connectionsPerClient: 1 } } });
    const stranger = recordOf(world.exchange({ fields: said }).requestFields);
    assert.equal(stranger['x-forwarded-for'], '192.0.2.1');
    assert.equal(stranger['forwarded'], 'for=192.0.2.1;host="app.test";proto=http');
    const proxy = recordOf(world.exchange({ from: '10.0.0.1', fields: said }).requestFields);
    assert.equal(proxy['x-forwarded-for'], '203.0.113.5, 10.0.0.9, 10.0.0.1');
    assert.deepEqual([proxy['x-flynn-client'], stranger['x-flynn-client']], ['203.0.113.5', undefined]);
    assert.equal(proxy['x-forwarded-proto'], 'https');
    assert.equal(proxy['x-forwarded-host'], 'public.test');
    assert.ok('answer' in world.ask({ from: '10.0.0.2', fields: said }), 'it is the client that is counted');
    assert.ok('exchange' in world.ask({ from: '10.0.0.2', fields: { 'x-forwarded-for': '203.0.113.6' } }));
    const lied = { 'x-forwarded-for': '198.51.100.1, 203.0.113.6' };
    assert.ok(
      'answer' in world.ask({ from: '10.0.0.2', fields: lied }),
      'what the client wrote before it counts for nothing',
    );
  });

  test('reads the same as lines, whatever the client asked before', async () => {
    const world = new World({ trusted: ['10.0.0.0/8'] });
    const open = new World();
    await world.serve({ domain: '*' });
    await open.serve({ domain: '*' });
    for (const each of [world, open]) {
      for (const address of ['192.0.2.1', '10.0.0.1']) {
        const client = { address, port: 50_000, localPort: 80, isTls: false };
        for (const [host, fields] of [
          ['app.test', {}],
          ['app.test', said],
          ['app.test', {}],
          ['other.test', {}],
          ['other.test', { 'x-forwarded-for': '' }],
          ['app.test', { forwarded: 'for=203.0.113.5' }],
          ['app.test', {}],
        ] as const) {
          const { requestFields, requestLines, removedFields } = each.exchange({ client, host, fields });
          assert.equal(requestLines, linesOf(requestFields));
          const isBelieved = each === world && address === '10.0.0.1' && 'x-forwarded-host' in fields;
          assert.equal(recordOf(requestFields)['x-forwarded-host'], isBelieved ? 'public.test' : host);
          for (const name of Object.keys(recordOf(requestFields))) assert.ok(removedFields.has(name), name);
        }
      }
    }
  });

  test('keeps an id that is one, and makes one where it is not', async () => {
    const world = new World();
    await world.serve();
    const id = 'abcdefghij-KLMNOPQRST_0123.=+/';
    assert.equal(world.exchange({ fields: { 'x-request-id': id } }).requestId, id);
    for (const bad of ['short', 'x'.repeat(201), `${id}\n`, `${id} `, `${id}"`, `${id}é`]) {
      assert.match(world.exchange({ fields: { 'x-request-id': bad } }).requestId, /^id-/, bad);
    }
  });

  test('is without the path of the route where that is stripped', async () => {
    const world = new World();
    await world.serve({ path: '/api', http: { stripPath: true } });
    await world.serve({ id: 'r2', path: '/plain' });
    assert.equal(world.exchange({ target: '/api/x?y' }).target, '/x?y');
    assert.equal(world.exchange({ target: '/z/../api/x' }).target, '/x');
    assert.equal(world.exchange({ target: '/plain/../plain/x' }).target, '/plain/../plain/x');
  });
});
