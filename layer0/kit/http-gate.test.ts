import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { hasCode } from './errors.ts';
import { type Gate, type GateRequest, partGate, partRules, roleGate } from './http-gate.ts';
import { anyHost } from './identity.ts';
import { metricsPath, metricsToken } from './metrics-token.ts';
import { defineRoute } from './routes.ts';

const route = defineRoute({ method: 'GET', path: '/blobs', response: z.string(), summary: 'a part of the platform' });
const figures = defineRoute({ method: 'GET', path: metricsPath, response: z.string(), summary: 'figures' });

const asked = (more: Partial<GateRequest> = {}, key = 'k'): GateRequest => ({
  route,
  params: {},
  headers: { authorization: `Bearer ${key}` },
  remoteAddress: '::ffff:192.0.2.9',
  requestId: 'r',
  signal: new AbortController().signal,
  ...more,
});

const outcome = async (gate: Gate, request: GateRequest): Promise<string> => {
  try {
    await gate(request);
    return 'in';
  } catch (error) {
    return hasCode(error, 'unauthenticated') ? 'unauthenticated' : hasCode(error, 'denied') ? 'denied' : String(error);
  }
};

const controller = 'flynn:app/controller';

test('a key alone opens a part until everybody can show who it is, and again as soon as somebody cannot', async () => {
  const around = { isEverybodyKnown: false };
  const gate = roleGate('k', partRules([anyHost, controller], around));
  const alone = asked();
  assert.equal(await outcome(gate, alone), 'in');
  around.isEverybodyKnown = true;
  assert.equal(await outcome(gate, alone), 'unauthenticated');
  for (const peer of ['flynn:host/h2', controller]) assert.equal(await outcome(gate, asked({ peer })), 'in', peer);
  assert.equal(await outcome(gate, asked({ peer: 'flynn:app/router' })), 'denied');
  assert.equal(
    await outcome(gate, asked({ peer: controller }, 'wrong')),
    'unauthenticated',
    'the key is asked for too',
  );
  around.isEverybodyKnown = false;
  assert.equal(await outcome(gate, alone), 'in');
});

test('where nobody tells who is there, a key is enough: in tests, and under an agent of before', async () => {
  assert.equal(await outcome(roleGate('k', partRules([anyHost], undefined)), asked()), 'in');
});

test('closed, a part still gives figures to monitoring, and answers on its own machine', async () => {
  const gate = roleGate('k', partRules([anyHost], { isEverybodyKnown: true }));
  assert.equal(await outcome(gate, asked({ route: figures }, metricsToken('k'))), 'in');
  assert.equal(await outcome(gate, asked({}, metricsToken('k'))), 'unauthenticated');
  assert.equal(await outcome(gate, asked({ remoteAddress: '::ffff:127.0.0.1' })), 'in');
});

test('closed, what has a key of its own for its machine takes that there, for there may be others with the key', async () => {
  const around = { isEverybodyKnown: true };
  const gate = roleGate('k', { ...partRules([anyHost], around), localKey: 'root' });
  const here = { remoteAddress: '127.0.0.1' };
  assert.equal(await outcome(gate, asked(here)), 'unauthenticated');
  assert.equal(await outcome(gate, asked(here, 'root')), 'in');
  assert.equal(await outcome(gate, asked({ ...here, route: figures }, metricsToken('k'))), 'in');
  assert.equal(await outcome(gate, asked({}, 'root')), 'unauthenticated', 'from elsewhere');
  assert.equal(await outcome(gate, asked({ peer: 'flynn:host/h2' }, 'root')), 'unauthenticated');
  around.isEverybodyKnown = false;
  for (const key of ['k', 'root']) assert.equal(await outcome(gate, asked(here, key)), 'in', key);
});

test('a part with a gate of its own asks it about those with a certificate, and about all others while they may come', async () => {
  const around = { isEverybodyKnown: true };
  const heard: (string | undefined)[] = [];
  const own: Gate = async ({ peer }) => {
    heard.push(peer);
    return { caller: { name: 'somebody' } };
  };
  const gate = partGate(own, around);
  assert.equal(await outcome(gate, asked()), 'unauthenticated');
  assert.equal(await outcome(gate, asked({ peer: 'flynn:app/router' })), 'in');
  around.isEverybodyKnown = false;
  assert.equal(await outcome(gate, asked()), 'in');
  assert.deepEqual(heard, ['flynn:app/router', undefined]);
});
