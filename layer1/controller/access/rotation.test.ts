import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig, printableConfig } from '@flynn/kit/config';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { health } from '../health/api.ts';
import { apps } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { configSchema } from '../config.ts';
import { startTestController } from '../testing.ts';
import { rotationFindings } from './rotation-findings.ts';
import { serviceToken } from './service-token.ts';

const formerKey = 'the-former-root-key';

test('while the root key is made anew both open everything, and so do tokens made of either; then the former says what to do', async () => {
  for (const isThrough of [false, true]) {
    await using world = await startTestController({
      hosts: 0,
      hasWorker: false,
      ...(isThrough ? {} : { formerKey }),
    });
    const outcome = async (key: string): Promise<string> => {
      await using client = createControllerClient({ baseUrl: world.url, key });
      try {
        await client.call(apps.list, {});
        return 'in';
      } catch (error) {
        assert.ok(error instanceof FlynnError && error.code === 'unauthenticated', String(error));
        return error.message;
      }
    };
    assert.equal(await outcome(world.userKey), 'in');
    assert.equal(await outcome(serviceToken(world.userKey, 'git-receiver')), 'in');
    if (!isThrough) {
      assert.equal(await outcome(formerKey), 'in');
      assert.equal(await outcome(serviceToken(formerKey, 'git-receiver')), 'in');
      continue;
    }
    assert.match(await outcome(formerKey), /not the root key .* not any more: .*npm run up/);
    assert.doesNotMatch(await outcome(serviceToken(formerKey, 'git-receiver')), /root key/);
    assert.doesNotMatch(await outcome(`flynn_aaaaaaaaaaaa_${'A'.repeat(43)}`), /root key/, 'a token is no root key');
  }
});

test('a rotation that is not through is told with the state of the cluster', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false, formerKey });
  const { findings } = await world.client.call(health.get, {});
  const found = findings.find(({ check }) => check === 'root-key');
  assert.match(found?.what ?? '', /former one is still good/);
  assert.match(found?.remedy ?? '', /^flynn-host bootstrap \(npm run up\) .* goes on/);
  const subjects = (keys: number, rounds: number) =>
    rotationFindings({
      rootKeys: Array.from({ length: keys }, String),
      tokenRounds: Array.from({ length: rounds }, (_, index) => index),
    }).map(({ subject }) => subject);
  assert.deepEqual([subjects(1, 1), subjects(1, 2), subjects(2, 2)], [[], ['tokens of the platform'], ['root key']]);
});

test('an empty key between commas is none, and keys are never printed', () => {
  const sealing = { FLYNN_SEALING_KEY: 'former-root,next-root' };
  const env = { FLYNN_KEY: 'k', FLYNN_CONTROLLER_KEY: 'new-root,,former-root,', ...sealing };
  const config = loadConfig(configSchema, env);
  assert.deepEqual(config.FLYNN_CONTROLLER_KEY, ['new-root', 'former-root']);
  assert.deepEqual(config.FLYNN_SEALING_KEY, ['former-root', 'next-root']);
  assert.equal(loadConfig(configSchema, { ...env, FLYNN_SEALING_KEY: '' }).FLYNN_SEALING_KEY, undefined);
  assert.doesNotMatch(JSON.stringify(printableConfig(configSchema, config)), /-root/);
  assert.throws(
    () => loadConfig(configSchema, { ...env, FLYNN_CONTROLLER_KEY: '' }),
    (error) => hasCode(error, 'invalid'),
  );
});
