import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { apps, releases } from '@flynn/controller/api';
import { startTestController } from '@flynn/controller/testing';
import { createApi } from '../api/client.ts';
import { changeEnv, readBasis } from './release-change.ts';

/** The API as a page reaches it, without the server in between. */
async function setUp() {
  const controller = await startTestController();
  const asked: string[] = [];
  /** Of these the answer is lost, once; and what happens just before these, once. */
  const lost = new Set<string>();
  const meanwhile = new Map<string, () => Promise<void>>();
  const api = createApi({
    onSessionOver: () => {},
    fetch: async (url, init) => {
      asked.push(`${init.method} ${url.replace(/^\/api/, '')}`);
      const headers = new Headers(init.headers);
      headers.set('authorization', `Bearer ${controller.userKey}`);
      const path = url.replace(/^\/api/, '');
      const line = `${init.method} ${path}`;
      const act = meanwhile.get(line);
      meanwhile.delete(line);
      await act?.();
      const answer = await fetch(`${controller.url}${path}`, {
        method: init.method ?? 'GET',
        headers,
        body: init.body ?? null,
      });
      if (lost.delete(line)) throw new TypeError('Failed to fetch');
      return answer;
    },
  });
  return { controller, api, asked, lost, meanwhile, [Symbol.asyncDispose]: () => controller[Symbol.asyncDispose]() };
}

describe('changing variables', () => {
  it('makes a release of the live one and deploys it', async () => {
    await using world = await setUp();
    const { controller, api } = world;
    const { release } = await controller.deployApp('shop', { web: { env: { OWN: 'x' } } });
    const { release: made, deployment } = await changeEnv(api, 'shop', { A: '1' }, 'wish');
    assert.deepEqual([made.env, made.artifactId, made.version], [{ A: '1' }, release.artifactId, release.version + 1]);
    assert.equal(made.processes['web']?.env['OWN'], 'x');
    assert.equal(deployment?.newReleaseId, made.id);
    assert.equal(deployment.oldReleaseId, release.id);
  });

  it('wished again because an answer was lost makes nothing twice', async () => {
    await using world = await setUp();
    const { controller, api, lost } = world;
    await controller.deployApp('shop', { web: {} });
    lost.add('POST /apps/shop/releases');
    await assert.rejects(changeEnv(api, 'shop', { A: '1' }, 'wish'), { code: 'unavailable' });
    const { release } = await changeEnv(api, 'shop', { A: '1' }, 'wish');
    const known = await controller.client.call(releases.list, { params: { app: 'shop' } });
    assert.deepEqual(
      known.map(({ version }) => version),
      [2, 1],
    );
    assert.equal(release.version, 2);
  });

  it('of an app without code is a release that waits for it', async () => {
    await using world = await setUp();
    const { controller, api, asked } = world;
    await controller.client.call(apps.create, { body: { name: 'shop' } });
    const { deployment } = await changeEnv(api, 'shop', { A: '1' }, 'wish');
    assert.equal(deployment, undefined);
    assert.deepEqual((await readBasis(api, 'shop')).release?.env, { A: '1' });
    assert.equal(
      asked.some((line) => line.includes('deployments')),
      false,
    );
  });

  it('made while somebody else is quicker takes back nothing of theirs', async () => {
    await using world = await setUp();
    const { controller, api, meanwhile } = world;
    await controller.deployApp('shop', { web: {} });
    meanwhile.set('POST /apps/shop/releases', async () => {
      const { id } = await controller.client.call(releases.create, {
        params: { app: 'shop' },
        body: { env: { THEIRS: '1' } },
      });
      await controller.deploy('shop', id);
    });
    const { release } = await changeEnv(api, 'shop', { OURS: '2' }, 'wish');
    assert.deepEqual(release.env, { THEIRS: '1', OURS: '2' });
  });
});
