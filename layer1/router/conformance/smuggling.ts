import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { ask, sayRaw, setUp as setUpRouter, settled, startBackend } from '../testing.ts';
import type { Driver } from '../config.ts';
import type { Timeouts } from '../exchange.ts';
import type { TestContext } from 'node:test';

/** What must never reach an app as something else. */
export function smugglingConformance(driver: Driver): void {
  const setUp = (t: TestContext, timeouts?: Partial<Timeouts>) => setUpRouter(t, timeouts, driver);

  test('a chunked body stays the body of its request, whatever the method', async (t) => {
    const { plane, router, port } = await setUp(t);
    const seen: string[] = [];
    const backend = await startBackend(t, async (request, response) => {
      seen.push(`${request.method} ${request.url} ${await text(request)}`);
      response.end('ok');
    });
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    const inner = 'GET /smuggled HTTP/1.1\r\nHost: app.test\r\n\r\n';
    const methods = ['DELETE', 'OPTIONS', 'GET', 'PUT', 'PROPFIND'];
    for (const method of methods) {
      const chunk = `${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`;
      const head = `${method} / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n`;
      assert.match(await sayRaw(port, head + chunk), /^HTTP\/1.1 200 OK/, method);
    }
    assert.deepEqual(
      seen,
      methods.map((method) => `${method} / ${inner}`),
    );
  });

  test('heads that could be read in two ways are refused and never reach an app', async (t) => {
    const { plane, router, port } = await setUp(t);
    const backend = await startBackend(t, (_request, response) => response.end('reached'));
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    const host = 'Host: app.test\r\n';
    const heads = [
      `POST / HTTP/1.1\r\n${host}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      `POST / HTTP/1.1\r\n${host}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc`,
      `POST / HTTP/1.1\r\n${host}Content-Length: 3, 3\r\n\r\nabc`,
      `POST / HTTP/1.1\r\n${host}Content-Length: -1\r\n\r\n`,
      `POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
      `POST / HTTP/1.1\r\n${host}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
      `POST / HTTP/1.1\r\n${host}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`,
      `POST / HTTP/1.0\r\n${host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      `POST / HTTP/1.1\r\n${host}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n`,
      `POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n`,
      `GET / HTTP/1.1\r\n${host}Host: other.test\r\n\r\n`,
      `GET / HTTP/1.1\r\n${host} X: folded\r\n\r\n`,
      `GET / HTTP/1.1\r\n${host}Bad Name: x\r\n\r\n`,
      `GET / HTTP/1.1\r\n${host}X: a\x00b\r\n\r\n`,
      `GET http://other.test/ HTTP/1.1\r\n${host}\r\n`,
      `GET / HTTP/1.1\nHost: app.test\n\n`,
      `CONNECT app.test:80 HTTP/1.1\r\n${host}\r\n`,
    ];
    for (const head of heads) {
      const answer = await sayRaw(port, head.replace('\r\nHost', '\r\nConnection: close\r\nHost'));
      assert.match(answer, /^(?:HTTP\/1.1 (?:400|501|404|502) |$)/, JSON.stringify(head));
      assert.ok(!answer.includes('reached'), JSON.stringify(head));
    }
    assert.equal(await text(await ask(port)), 'reached');
  });

  test('a body left unread after a refusal is not taken for a request', async (t) => {
    const { port } = await setUp(t);
    const inner = 'GET /inner HTTP/1.1\r\nHost: app.test\r\n\r\n';
    const head = `POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: ${inner.length + 5}\r\n\r\n`;
    const answer = await sayRaw(port, head, inner);
    assert.equal(answer.match(/HTTP\/1.1/g)?.length, 1);
    assert.match(answer, /^HTTP\/1.1 503/);
  });

  test('requests on one connection are answered in their order', async (t) => {
    const { plane, router, port } = await setUp(t);
    const backend = await startBackend(t, (request, response) => {
      setTimeout(() => response.end(`<${request.url}>`), request.url === '/1' ? 50 : 0);
    });
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    const get = (path: string, last = '') => `GET ${path} HTTP/1.1\r\nHost: app.test\r\n${last}\r\n`;
    const answer = await sayRaw(port, get('/1') + get('/2') + get('/3', 'Connection: close\r\n'));
    assert.deepEqual(answer.match(/<[^>]+>/g), ['</1>', '</2>', '</3>']);
  });
}
