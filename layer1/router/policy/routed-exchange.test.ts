import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import type { Backend } from '../backend.ts';
import type { Exchange } from '../exchange.ts';
import { World, cookieIn, ended, recordOf } from './testing.ts';

const [one, two, three] = ['10.0.0.1:80', '10.0.0.2:80', '10.0.0.3:80'] as const;

async function picked(exchange: Exchange): Promise<Backend> {
  const backend = await exchange.pick();
  assert.ok(backend !== undefined, 'there is no backend');
  return backend;
}

async function fail(exchange: Exchange, how: 'dial' | 'broke' | 'late' = 'dial'): Promise<string> {
  const backend = await picked(exchange);
  exchange.failed(backend, how);
  exchange.release(backend);
  return backend.address;
}

describe('the backends of a request', () => {
  test('after a failed dial come others, four at most, none twice', async () => {
    const world = new World();
    await world.serve({}, ['10.0.0.1:80', '10.0.0.2:80', '10.0.0.3:80', '10.0.0.4:80', '10.0.0.5:80']);
    const exchange = world.exchange();
    const tried = new Set<string>();
    for (let i = 0; i < 4; i += 1) tried.add(await fail(exchange));
    assert.equal(tried.size, 4);
    assert.equal(await exchange.pick(), undefined);
    assert.equal(exchange.answerFor('unreachable').code, 'unreachable');
    exchange.end(ended(503));
    assert.equal(world.counters.dialFailures, 4);
    const { address } = (await world.get()) ?? {};
    assert.ok(address !== undefined && !tried.has(address), 'the one that was not tried is well');
  });

  test('one that could not be dialled comes again in time, though the clock was set back an hour', async () => {
    const world = new World();
    await world.serve({}, [one, two]);
    const away = await fail(world.exchange());
    world.nowMs += 10_000;
    world.setBackMs = 3_600_000;
    const chosen = new Set<string | undefined>();
    for (let i = 0; i < 100; i += 1) chosen.add((await world.get())?.address);
    assert.ok(chosen.has(away));
  });

  test('the only one that broke is asked once more, and not again', async () => {
    const world = new World();
    await world.serve({}, [one]);
    const exchange = world.exchange();
    assert.equal(await fail(exchange, 'broke'), one);
    assert.equal(await fail(exchange, 'broke'), one);
    assert.equal(await exchange.pick(), undefined);
    assert.equal(world.counters.retries, 1);
  });

  test('another comes before the one that broke', async () => {
    const world = new World();
    await world.serve({}, [one, two]);
    for (let i = 0; i < 10; i += 1) {
      const exchange = world.exchange();
      assert.notEqual(await fail(exchange, 'broke'), (await picked(exchange)).address);
      exchange.end(ended(200));
    }
  });

  test('a service that has just become known is waited for', async () => {
    const world = new World();
    const serving = world.serve({}, [one]);
    const exchange = world.exchange();
    const pick = exchange.pick();
    assert.ok(pick instanceof Promise);
    assert.equal((await pick)?.address, one);
    await serving;
    assert.ok(!(world.exchange().pick() instanceof Promise));
  });

  test('a leader route asks the leader and nobody else', async () => {
    const world = new World();
    await world.serve({ http: { leader: true } }, [two, one, three]);
    for (let i = 0; i < 10; i += 1) assert.equal((await world.get())?.address, two);
    world.discovery.set('web', [three, two]);
    const exchange = world.exchange();
    assert.equal(await fail(exchange), three);
    assert.equal(await exchange.pick(), undefined);
  });

  test('what is taken is given back, whatever becomes of it', async () => {
    const step = fc.constantFrom<'dial' | 'broke' | 'late' | 'answer' | 'forget'>(
      'dial',
      'broke',
      'late',
      'answer',
      'forget',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(step, { maxLength: 6 }), { maxLength: 12 }), async (requests) => {
        const world = new World();
        await world.serve({ http: { limits: { connections: 1_000 } } }, [one, two, three]);
        for (const steps of requests) {
          const exchange = world.exchange();
          for (const how of steps) {
            const backend = await exchange.pick();
            if (backend === undefined) break;
            assert.equal(backend.inFlight, 1);
            if (how === 'answer') exchange.answered(backend, 200, true);
            else if (how !== 'forget') exchange.failed(backend, how);
            if (how !== 'forget') exchange.release(backend);
          }
          exchange.end(ended(200));
          assert.deepEqual(
            Array.from(world.backends.all(), ({ inFlight }) => inFlight),
            [0, 0, 0],
          );
          world.nowMs += 1_000;
        }
        assert.equal(world.routes.get('r')?.figures.active, 0);
        assert.equal(world.routes.get('r')?.figures.requests, requests.length);
      }),
    );
  });
});

describe('a backend that fails again and again', () => {
  test('is left alone, tried by one request at a time, and used again when it answers', async () => {
    const world = new World();
    await world.serve({}, [one, two]);
    const failing = async () => {
      const exchange = world.exchange();
      const backend = await picked(exchange);
      if (backend.address === one) exchange.failed(backend, 'broke');
      else exchange.answered(backend, 200, true);
      exchange.release(backend);
      exchange.end(ended(200));
      return backend.address;
    };
    while (![...world.backends.all()].some(({ health }) => health.isEjected)) await failing();
    for (let i = 0; i < 20; i += 1) assert.equal(await failing(), two);
    world.nowMs += 5_000;
    const exchanges = Array.from({ length: 20 }, () => world.exchange());
    const asked = await Promise.all(exchanges.map(picked));
    assert.equal(asked.filter(({ address }) => address === one).length, 1);
    for (const [index, exchange] of exchanges.entries()) {
      const backend = asked[index];
      if (backend !== undefined) exchange.answered(backend, 500, true);
      exchange.end(ended(500));
    }
    const addresses = new Set(await Promise.all(Array.from({ length: 20 }, async () => (await world.get())?.address)));
    assert.equal(addresses.size, 2);
  });
});

describe('a client that is to stay', () => {
  test('with its backend does so by its cookie, and gets another when that has left', async () => {
    const world = new World();
    await world.serve({ path: '/api', http: { sticky: true } }, [one, two, three]);
    const first = await world.get({ target: '/api', isTls: true });
    const cookie = cookieIn(first?.fields, '_flynn_backend') ?? '';
    assert.match(recordOf(first?.fields ?? [])['set-cookie'] ?? '', /; Path=\/api; HttpOnly; SameSite=Lax; Secure$/);
    for (let i = 0; i < 20; i += 1) {
      const next = await world.get({ target: '/api', fields: { cookie: `a=b; ${cookie}` } });
      assert.equal(next?.address, first?.address);
      assert.equal(cookieIn(next?.fields, '_flynn_backend'), undefined, 'it has it already');
    }
    world.discovery.set(
      'web',
      [one, two, three].filter((address) => address !== first?.address),
    );
    const moved = await world.get({ target: '/api', fields: { cookie } });
    const renewed = cookieIn(moved?.fields, '_flynn_backend') ?? '';
    assert.ok(renewed !== '' && renewed !== cookie);
    assert.equal((await world.get({ target: '/api', fields: { cookie: renewed } }))?.address, moved?.address);
  });

  test('is sent elsewhere when its backend cannot be reached, and stays there', async () => {
    const world = new World();
    await world.serve({ http: { sticky: true } }, [one, two]);
    const first = await world.get();
    const cookie = cookieIn(first?.fields, '_flynn_backend') ?? '';
    const exchange = world.exchange({ fields: { cookie } });
    assert.equal(await fail(exchange), first?.address);
    const other = await picked(exchange);
    assert.notEqual(other.address, first?.address);
    const fields = exchange.answered(other, 200, true);
    assert.ok(Array.isArray(fields));
    assert.ok(cookieIn(fields, '_flynn_backend') !== undefined);
  });

  test('is not sent to what a deployment takes away because of its weight alone', async () => {
    const world = new World();
    const weights = [
      { release: 'old', weight: 95 },
      { release: 'new', weight: 5 },
    ];
    const backends = [`${one} old`, `${two} new`, `${three} new`];
    const partOfOld = async (leavingReleaseId?: string) => {
      await world.serve(
        { http: { weights }, ...(leavingReleaseId === undefined ? {} : { leavingReleaseId }) },
        backends,
      );
      let old = 0;
      for (let i = 0; i < 600; i += 1) if ((await world.get())?.address === one) old += 1 / 600;
      return old;
    };
    assert.ok(Math.abs((await partOfOld()) - 0.95) < 0.05);
    assert.ok(Math.abs((await partOfOld('old')) - 1 / 3) < 0.1);
  });

  test('with one release is never answered by another, with a cookie or without, as its share grows', async () => {
    const world = new World();
    const backends = [`${one} old`, `${two} old`, `${three} new`];
    const share = async (percent: number) => {
      const weights = [
        { release: 'old', weight: 100 - percent },
        { release: 'new', weight: percent },
      ];
      await world.serve({ http: { weights, releaseAffinity: true } }, backends);
    };
    const clients = Array.from({ length: 100 }, (_, index) => ({ from: `192.0.2.${index}`, cookie: '' }));
    const isOnNew = clients.map(() => false);
    for (const percent of [0, 10, 50, 100]) {
      await share(percent);
      for (const [index, client] of clients.entries()) {
        for (let i = 0; i < 3; i += 1) {
          // Every second one keeps cookies, and comes from another address each time.
          const hasCookie = index % 2 === 0 && client.cookie !== '';
          const from = hasCookie ? `198.51.100.${index + i}` : client.from;
          const { address, fields } =
            (await world.get({ from, fields: hasCookie ? { cookie: client.cookie } : {} })) ?? {};
          const isNew = address === three;
          assert.ok(isNew || !isOnNew[index], 'nobody goes back');
          if (i > 0) assert.equal(isNew, isOnNew[index], 'nobody changes while the shares stay');
          isOnNew[index] = isNew;
          client.cookie = cookieIn(fields, '_flynn_release') ?? client.cookie;
        }
      }
      const news = isOnNew.filter(Boolean).length;
      assert.ok(Math.abs(news - percent) <= 15, `${news} of ${percent}`);
    }
  });
});

describe('a page of the app’s own', () => {
  const pages = { '502': '<p>broken', '5xx': '<p>five' };

  test('stands for the router’s answer and for a backend’s without a body, unless JSON is asked for', async () => {
    const world = new World();
    await world.serve({ http: { pages } });
    const exchange = world.exchange();
    const backend = await picked(exchange);
    assert.equal(exchange.answerFor('backend-broke').body, '<p>broken');
    const instead = exchange.answered(backend, 500, false);
    assert.ok(!Array.isArray(instead) && 'body' in instead);
    assert.deepEqual([instead.status, instead.code, instead.body], [500, '', '<p>five']);
    assert.ok(Array.isArray(exchange.answered(backend, 500, true)), 'its own body stays');
    assert.ok(Array.isArray(exchange.answered(backend, 404, false)), 'there is no page for it');
    const json = world.exchange({ fields: { accept: 'application/json' } });
    assert.ok(Array.isArray(json.answered(await picked(json), 500, false)));
    assert.equal(JSON.parse(json.answerFor('backend-late').body).code, 'backend-late');
  });
});

describe('the access log', () => {
  test('has one line for each request, whatever became of it', async () => {
    const world = new World();
    await world.serve({}, [one]);
    await world.get({ target: '/x?y', fields: { 'user-agent': 'a"\n{}' } });
    world.ask({ host: 'other.test' });
    const exchange = world.exchange();
    world.nowMs += 12;
    exchange.answerFor('no-backends');
    exchange.end(ended(503, { bytesIn: 7, bytesOut: 9 }));
    world.accessLog.flush();
    const [first, second, third] = world.lines.map((line) => JSON.parse(line));
    assert.equal(world.lines.length, 3);
    assert.deepEqual(
      [first.client, first.method, first.target, first.status, first.backend, first.app, first.userAgent],
      ['192.0.2.1', 'GET', '/x?y', 200, one, 'a', 'a"\n{}'],
    );
    assert.deepEqual([second.status, second.code, second.host], [404, 'unknown-host', 'other.test']);
    assert.deepEqual([third.code, third.ms, third.bytesIn, third.bytesOut], ['no-backends', 12, 7, 9]);
  });

  test('combined, is one line of known shape whatever a client sends', async () => {
    const text = fc.string({ unit: 'binary', maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(text, text, async (agent, target) => {
        const world = new World({ format: 'combined' });
        await world.serve();
        await world.get({ target: `/${target}`, fields: { 'user-agent': agent, referer: agent } });
        world.accessLog.flush();
        assert.equal(world.lines.length, 1);
        assert.match(
          world.lines[0] ?? '',
          /^192\.0\.2\.1 - - \[14\/Nov\/2023:22:13:20 \+0000\] "GET \/[!-~ ]* HTTP\/1\.1" 200 - "[^"]*" "[^"]*"$/,
        );
      }),
    );
  });
});
