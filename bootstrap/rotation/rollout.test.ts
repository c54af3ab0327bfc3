import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { readLiveKeys } from '@flynn/controller/access/live-keys';
import { serviceOf } from '@flynn/controller/access/service-token';
import { apps, jobs, releases } from '@flynn/controller/api';
import { type TestController, startTestController } from '@flynn/controller/testing';
import { HttpClient } from '@flynn/kit/http-client';
import { imageNames } from '../images/recipes.ts';
import { type SystemApp, manifestOf } from '../platform/manifest.ts';
import { Platform } from '../platform/platform.ts';
import { beginning, closed, closing, commonRootKey, isOpen, rootKeysOf } from './rotation.ts';
import { withLiveKeys, withNextRootKey } from './rotation.ts';
import { made } from '../cluster-fixture.ts';
import type { Cluster } from '../settings.ts';

const images = new Map(imageNames.map((name) => [name, `flynn/${name}:1`]));

function appsOf(cluster: Cluster, wanted: readonly string[]): SystemApp[] {
  const input = { sshHostKey: 'KEY', sshHostPublicKey: 'ssh-ed25519 AAAA', builderEnv: {}, hostMemoryBytes: 8e9 };
  const controllerCertificate = { certificate: 'C', privateKey: 'K' };
  return manifestOf({ cluster, images, ...input, controllerCertificate }).filter(({ name }) => wanted.includes(name));
}

/** What each job of the app that runs was told. */
async function told({ client }: TestController, app: string): Promise<Record<string, string>[]> {
  const all = await client.call(apps.list, {});
  if (!all.some(({ name }) => name === app)) return [];
  const running = await client.call(jobs.list, { params: { app } });
  const ids = new Set(running.filter(({ state }) => state === 'running').map(({ releaseId }) => releaseId));
  return await Promise.all(
    [...ids].map(async (release) => (await client.call(releases.get, { params: { app, release: release ?? '' } })).env),
  );
}

/** Lets in whom each of the controllers that run would let in; how often one of them would not. */
async function startFront(world: TestController) {
  const refused: string[] = [];
  const judge = async (key: string, url: string | undefined): Promise<void> => {
    for (const env of await told(world, 'controller')) {
      if (!env['FLYNN_CONTROLLER_KEY']?.split(',').includes(key)) refused.push(`${url}: ${key}`);
    }
  };
  const pass = async (incoming: IncomingMessage, answer: ServerResponse): Promise<void> => {
    const key = incoming.headers.authorization?.split(' ')[1] ?? '';
    await judge(key, incoming.url);
    const headers = { ...incoming.headers, authorization: `Bearer ${world.userKey}` };
    const outgoing = request(`${world.url}${incoming.url}`, { method: incoming.method, headers }, (reply) => {
      answer.writeHead(reply.statusCode ?? 500, reply.headers);
      reply.pipe(answer);
    });
    incoming.pipe(outgoing);
  };
  const server = createServer((incoming, answer) => void pass(incoming, answer));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    refused,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

test('controllers that are deployed let in whoever calls them and all parts, until the former key is in none and in no release', async () => {
  await using world = await startTestController({ memoryBytes: 64e9 });
  await using front = await startFront(world);
  const parts = ['runner', 'git-receiver'];
  let file = made();
  const former = file.controllerKey;
  const with_ = async <T>(task: (platform: Platform) => Promise<T>): Promise<T> => {
    await using client = new HttpClient({ baseUrl: front.url, key: commonRootKey(file), name: 'the front' });
    return await task(new Platform(client));
  };
  const deploy = async (wanted: readonly string[]): Promise<void> => {
    await with_((platform) => platform.ensureApps(appsOf(file, wanted), () => {}));
    // Whichever of them runs by now: each controller takes each part's token.
    for (const { FLYNN_CONTROLLER_KEY: keys = '', FLYNN_TOKEN_ROUNDS: rounds = '' } of await told(
      world,
      'controller',
    )) {
      for (const part of parts) {
        for (const { FLYNN_CONTROLLER_TOKEN: token = '' } of await told(world, part)) {
          assert.equal(serviceOf(token, keys.split(','), rounds.split(',').map(Number)), part);
        }
      }
    }
  };
  const live = () => readLiveKeys(world.store, 'controller');
  await deploy(['controller']);
  await deploy(parts);
  assert.deepEqual(await live(), { domain: 'flynn.localhost', rootKeys: [former], rounds: [0] });

  file = withNextRootKey(file, 'new', beginning());
  assert.deepEqual(withLiveKeys(file, await live(), beginning()), file);
  await deploy(['controller']);
  assert.deepEqual(await live(), { domain: 'flynn.localhost', rootKeys: ['new', former], rounds: [1, 0] });
  await deploy(parts);
  assert.ok(isOpen(file));
  file = closing(file);
  assert.deepEqual(withLiveKeys(file, await live(), beginning()), file);
  await deploy(['controller']);
  const keys = rootKeysOf(file).join(',');
  await with_((platform) => platform.removeReleases('controller', (env) => env['FLYNN_CONTROLLER_KEY'] !== keys));
  file = closed(file);
  assert.deepEqual(await live(), { domain: 'flynn.localhost', rootKeys: ['new'], rounds: [1] });
  const left = await world.client.call(releases.list, { params: { app: 'controller' } });
  assert.deepEqual(
    left.map(({ env }) => env['FLYNN_CONTROLLER_KEY']),
    ['new'],
  );
  assert.deepEqual(front.refused, []);
  // This test would see who is refused.
  file = { ...file, controllerKey: former };
  await with_((platform) => platform.find('controller'));
  assert.ok(front.refused.length > 0);
});
