import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { sendRelease } from './newer-fields.ts';

const refusal = (...unknown: string[]) => new FlynnError('invalid', 'it does not know these', { detail: { unknown } });

const check = { type: 'http', path: '/up', port: 9090 };
const body = {
  basis: 'r1',
  scripts: { postdeploy: 'seed', postdeployEach: 'notify' },
  processes: { web: { ports: [{ port: 8080, service: { name: 'shop-web', check } }] } },
};

test('a controller of the version before gets of a release what it knows', async () => {
  const sent: unknown[] = [];
  const answer = await sendRelease(body, async (one) => {
    sent.push(one);
    if (sent.length > 1) return 'made';
    throw refusal('basis', 'scripts.postdeployEach', 'processes.web.ports.0.service.check.port');
  });
  assert.equal(answer, 'made');
  assert.deepEqual(sent, [
    body,
    {
      scripts: { postdeploy: 'seed' },
      processes: {
        web: { ports: [{ port: 8080, service: { name: 'shop-web', check: { type: 'http', path: '/up' } } }] },
      },
    },
  ]);
});

test('what a release cannot do without, and any other refusal, is for its maker to hear', async () => {
  const refused = [
    refusal('basis', 'processes.web.isolated'),
    new FlynnError('invalid', 'no'),
    new FlynnError('denied', 'no'),
  ];
  for (const error of refused) {
    let asked = 0;
    const send = async (): Promise<never> => {
      asked += 1;
      throw error;
    };
    await assert.rejects(sendRelease(body, send), (thrown) => thrown === error && hasCode(thrown, error.code));
    assert.equal(asked, 1);
  }
});
