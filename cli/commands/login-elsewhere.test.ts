/** Logging in at controllers that are not as this version has them: another cluster's, and one of a version before. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { login } from '@flynn/controller/access/api-login';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import type { z } from 'zod';
import { runCli } from '../program.ts';
import { pageOf, startDesk } from './login-fixture.ts';

async function serve(host: string, answer: (request: IncomingMessage) => Promise<Response>) {
  const server = createServer((request, response) => {
    void answer(request)
      .then(async (given) =>
        response.writeHead(given.status, { 'content-type': 'application/json' }).end(await given.text()),
      )
      .catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined));
  }).listen(0, host);
  await once(server, 'listening');
  const address = server.address();
  return {
    url: `http://${host}:${typeof address === 'object' && address !== null ? address.port : 0}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

test('what another cluster is handed at a login opens nothing here, though it names this one’s provider and client', async () => {
  await using it = await startDesk();
  const handed = Promise.withResolvers<z.output<typeof login.create.body>>();
  const { issuer, clientId } = it.provider;
  await using evil = await serve('127.0.0.2', async (request) => {
    const body = await text(request);
    if (body === '') return Response.json({ issuer, clientId, scope: 'openid email' });
    handed.resolve(login.create.body.parse(JSON.parse(body)));
    return Response.json({ code: 'denied', message: 'it has what it wants' }, { status: 403 });
  });
  const io = it.desk.io();
  const running = runCli(['login', 'evil', evil.url], io);
  await (await fetch(await pageOf(io))).text();
  const body = await handed.promise;
  await using anybody = new HttpClient({ baseUrl: it.controller.url, name: 'the controller' });
  const { bound: _, ...unbound } = body;
  for (const one of [body, unbound, { ...body, bound: { host: '127.0.0.1', secret: body.bound?.secret ?? '' } }]) {
    await assert.rejects(anybody.call(login.create, { body: one }), (error) => hasCode(error, 'denied'));
  }
  assert.notEqual(await running, 0);
});

test('a controller of a version before, which does not know what a login is bound to, is logged in to as before', async () => {
  await using it = await startDesk({ takesUnbound: true });
  await using former = await serve('127.0.0.1', async (request) => {
    const body = await text(request);
    if (body.includes('"bound"')) {
      const message = 'the body has fields it does not know: bound';
      return Response.json({ code: 'invalid', message, detail: { unknown: ['bound'] } }, { status: 400 });
    }
    const { method = 'GET', url = '/', headers } = request;
    const { authorization = '' } = headers;
    const sent = body === '' ? {} : { body };
    const own = { 'content-type': 'application/json', ...(authorization === '' ? {} : { authorization }) };
    return fetch(`${it.controller.url}${url}`, { method, headers: own, ...sent });
  });
  const io = it.desk.io();
  const running = runCli(['login', 'home', former.url], io);
  await (await fetch(await pageOf(io))).text();
  assert.equal(await running, 0, io.stderr.text);
  assert.match(io.stdout.text, /^logged in to home as ann@example\.com/);
});
