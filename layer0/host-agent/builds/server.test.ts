/** What is said of images before a build, by an engine that somebody else removes images from. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { createMemoryEngine } from '../engine/memory.ts';
import { buildRoutes } from './api.ts';
import { buildHandlers } from './server.ts';

/** `looks`: whether the image is there, each time that somebody looks for what it sets. */
async function openPlace(looks: boolean[]) {
  const engine = createMemoryEngine({ images: ['base'] });
  let ensured = 0;
  const removing: typeof engine = {
    ...engine,
    async ensureImage(image, options) {
      ensured += 1;
      return engine.ensureImage(image, options);
    },
    async imageEnv(ref, options) {
      if (looks.shift() === false) throw new FlynnError('not_found', `there is no image ${ref}`);
      return engine.imageEnv(ref, options);
    },
  };
  const server = await startServer({
    name: 'agent',
    key: 'k',
    host: '127.0.0.1',
    port: 0,
    log: silentLogger(),
    handlers: buildHandlers(removing, async () => assert.fail('no build has begun')),
  });
  const agent = new HttpClient({ baseUrl: server.url, key: 'k', name: 'the host agent' });
  return {
    ensure: (name: string) => agent.call(buildRoutes.ensureImage, { body: { image: { name } } }),
    ensured: () => ensured,
    async [Symbol.asyncDispose]() {
      await agent.close();
      await server.close();
    },
  };
}

const env = { PATH: '/bin' };
const cases: [what: string, looks: boolean[], answer: object, ensured: number][] = [
  ['is there is not looked for twice', [true], { name: 'base', env }, 1],
  ['was removed behind the agent is brought again', [false, true], { name: 'base', env }, 2],
  ['is removed again and again is for the build to find, or to miss', [false, false], { name: 'base' }, 2],
];
for (const [what, looks, answer, ensured] of cases) {
  test(`an image that ${what}`, async () => {
    await using place = await openPlace(looks);
    assert.deepEqual(await place.ensure('base'), answer);
    assert.equal(place.ensured(), ensured);
  });
}

test('an image that nobody has is not found, and asked for once', async () => {
  await using place = await openPlace([]);
  await assert.rejects(place.ensure('absent'), (error) => hasCode(error, 'not_found'));
  assert.equal(place.ensured(), 1);
});
