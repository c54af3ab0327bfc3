import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { createAuthority } from '@flynn/kit/tls';
import { waitFor } from '@flynn/kit/retry';
import { closed } from '@flynn/kit/testing-sockets';
import type { ServedCertificate } from '@flynn/controller/certificates/model';
import type { Answer, Client, Policy, RequestHead } from '../exchange.ts';
import { sayRaw } from '../testing.ts';
import { Challenges, answeringChallenges } from './challenges.ts';
import { servedBy, setUpTls, shake } from './testing.ts';

const token = 'evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA';
const waiting = (challenges: ServedCertificate['challenges']): ServedCertificate => ({
  id: 'new',
  domains: ['app.test'],
  source: 'acme',
  challenges,
});

test('an authority gets its answer over plain HTTP, of whatever host, as long as there is one', async (t) => {
  const world = await setUpTls(t);
  const say = () =>
    sayRaw(
      world.router.httpPort,
      `GET /.well-known/acme-challenge/${token} HTTP/1.1\r\nHost: nobody.test\r\nConnection: close\r\n\r\n`,
    );
  assert.match(await say(), /^HTTP\/1\.1 404 /);
  world.certificates.set(waiting([{ type: 'http-01', token, answer: `${token}.thumbprint` }]));
  await waitFor(async () => (await say()).endsWith(`\r\n\r\n${token}.thumbprint`), {
    what: 'the answer',
    deadlineMs: 30_000,
  });
  world.certificates.set(waiting([]));
  await waitFor(async () => (await say()).startsWith('HTTP/1.1 404 '), { what: 'its end', deadlineMs: 30_000 });
});

test('a challenge is answered before the policy, over plain HTTP alone, and nothing else is', () => {
  const challenges = new Challenges();
  challenges.set(waiting([{ type: 'http-01', token, answer: 'yes' }]));
  const refusal: Answer = { status: 404, code: 'unknown-host', fields: [], body: 'no' };
  const inner: Policy = { admit: () => ({ answer: refusal }), refuse: () => refusal };
  const policy = answeringChallenges(inner, challenges);
  const client = (isTls: boolean): Client => ({ address: '192.0.2.1', port: 1, localPort: 80, isTls });
  const answerTo = (target: string, isTls = false) => {
    const head: RequestHead = {
      method: 'GET',
      target,
      host: 'x.test',
      protocol: 'HTTP/1.1',
      body: 'none',
      upgrade: undefined,
      header: () => undefined,
    };
    const verdict = policy.admit(head, client(isTls));
    return 'answer' in verdict ? verdict.answer.body : undefined;
  };
  assert.equal(answerTo(`/.well-known/acme-challenge/${token}`), 'yes');
  assert.equal(answerTo(`/.well-known/acme-challenge/${token}`, true), 'no');
  assert.equal(answerTo(`/.well-known/acme-challenge/${token}x`), 'no');
  assert.equal(answerTo('/'), 'no');
});

test('over acme-tls/1 the challenge’s certificate is shown, to all others meanwhile the usual one', async (t) => {
  const world = await setUpTls(t, {
    first: async (authority) => [await servedBy(authority, { id: 'c1', domains: ['app.test'], name: 'usual' })],
  });
  const shown = await createAuthority('challenge');
  const challenge = { type: 'tls-alpn-01', domain: 'app.test', ...shown } as const;
  world.certificates.set(waiting([challenge]));
  const nameOf = async (ALPNProtocols: string[]) => {
    const socket = await shake(world.port, { servername: 'app.test', ALPNProtocols, rejectUnauthorized: false });
    const { subject } = socket.getPeerCertificate();
    const agreed = socket.alpnProtocol;
    socket.destroy();
    return `${String(subject.CN)} ${String(agreed)}`;
  };
  await waitFor(async () => (await nameOf(['acme-tls/1']).catch(() => '')) === 'challenge acme-tls/1', {
    what: 'the challenge to be shown',
    deadlineMs: 30_000,
  });
  assert.equal(await nameOf(['http/1.1']), 'usual http/1.1');
  const slow = connect(world.port, '127.0.0.1');
  slow.end('\u0016');
  slow.on('error', () => {}).resume();
  await closed(slow);
  world.certificates.remove('new');
  await waitFor(
    async () =>
      nameOf(['acme-tls/1']).then(
        () => false,
        () => true,
      ),
    {
      what: 'its end',
      deadlineMs: 30_000,
    },
  );
  assert.equal(await nameOf(['http/1.1']), 'usual http/1.1');
});
