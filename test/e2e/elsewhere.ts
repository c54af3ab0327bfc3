/** What an app runs comes from elsewhere: a repository it follows, an image in a registry. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import { request } from 'node:https';
import { join, normalize } from 'node:path';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { type Answer, answerTo } from '../answer.ts';
import type { Checkout } from '../checkout.ts';
import type { TestCluster } from '../test-cluster.ts';
import { imageWith } from './registry-image.ts';

/** Reached by the cluster's containers; answers `HOST:PORT`. */
async function serve(cluster: TestCluster, listener: RequestListener): Promise<AsyncDisposable & { address: string }> {
  const server = createServer(listener).listen(0, cluster.host.gateway);
  await once(server, 'listening');
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  return {
    address: `${cluster.host.gateway}:${address.port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

type Made = { hook: { url: string }; secret: string };

/** As GitHub tells of a push, over the public port of a router. */
function sendHook(cluster: TestCluster, url: string, payload: object, secret: string): Promise<Answer> {
  const body = JSON.stringify(payload);
  const { hostname, pathname } = new URL(url);
  const outgoing = request({
    host: cluster.host.address,
    port: 443,
    servername: hostname,
    // The cluster's own authority is nobody's here.
    rejectUnauthorized: false,
    method: 'POST',
    path: pathname,
    agent: false,
    headers: {
      host: hostname,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'x-github-event': 'push',
      'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
    },
  });
  outgoing.write(body);
  return answerTo(outgoing);
}

async function sourceOf(app: Checkout): Promise<{ polledAt?: string }> {
  return JSON.parse((await app.flynn(['source', '--json'])).stdout) as { polledAt?: string };
}

/** After `describeImages`: the app it pushed is what the registry has an image of. */
export function describeElsewhere(theCluster: () => TestCluster): void {
  test('an app follows a branch elsewhere: each commit goes live, submodules too, and why a look fails is told', async () => {
    const cluster = theCluster();
    const app = await cluster.checkout('dockerfile', 'followed');
    const folder = join(cluster.directory, 'elsewhere');
    await using web = await serve(cluster, (request, response) => {
      const path = normalize(new URL(request.url ?? '/', 'http://x').pathname);
      readFile(join(folder, path)).then(
        (bytes) => response.end(bytes),
        () => response.writeHead(404).end(),
      );
    });
    const publish = async (from: string, name: string): Promise<string> => {
      const bare = join(folder, name);
      await cluster.exec(['git', 'init', '--quiet', '--bare', '--initial-branch=main', bare]);
      await cluster.exec(['git', '-C', from, 'push', '--quiet', bare, 'main']);
      await cluster.exec(['git', '-C', bare, 'update-server-info']);
      return `http://${web.address}/${name}`;
    };
    const library = await cluster.checkout('static', 'library', { isCreated: false });
    await library.write('greeting', 'of a submodule');
    await library.commit('a greeting');
    const libraryUrl = await publish(library.directory, 'library.git');
    await cluster.exec(['git', '-C', app.directory, 'submodule', '--quiet', 'add', libraryUrl, 'library']);
    const own = 'WORKDIR /srv\nCOPY . .\nRUN cat library/greeting said > greeting\nENTRYPOINT ["node", "server.js"]\n';
    await app.write('Dockerfile', `FROM flynn/slug-builder\n${own}EXPOSE 3000\n`);
    const say = async (text: string): Promise<string> => {
      await app.write('said', text);
      await app.commit(text);
      return publish(app.directory, 'followed.git');
    };
    const untilServed = (text: string) =>
      waitFor(async () => (await app.get()).body === text, { what: `"${text}"`, deadlineMs: 240_000, intervalMs: 300 });
    const url = await say(', one');
    await app.flynn(['source', 'set', url, '--every', '1h']);
    await untilServed('of a submodule, one');
    await say(', two');
    assert.match(
      (await app.flynn(['source', 'poll'])).stdout,
      /^[0-9a-f]{8} is being built: "flynn op log \S+" follows/,
    );
    await untilServed('of a submodule, two');
    await waitFor(
      async () => /^commit +[0-9a-f]{12} \(deploy complete\)$/m.test((await app.flynn(['source'])).stdout),
      {
        what: 'its deployment to be told of',
        deadlineMs: 120_000,
        intervalMs: 300,
      },
    );
    const before = await sourceOf(app);
    const { hook, secret } = JSON.parse((await app.flynn(['source', 'hook', '--json'])).stdout) as Made;
    assert.ok(hook.url.startsWith(`https://controller.${cluster.domain}/hooks/`), hook.url);
    const hooked = (ref: string, by = secret) => sendHook(cluster, hook.url, { ref: `refs/heads/${ref}` }, by);
    await waitFor(async () => (await hooked('dev')).status === 200, {
      what: 'the hook to be known',
      deadlineMs: 60_000,
      intervalMs: 300,
    });
    assert.equal((await hooked('main', 'another')).status, 401);
    assert.match((await hooked('main')).body, /"a push to main: the repository is looked at now"/);
    await waitFor(async () => (await sourceOf(app)).polledAt !== before.polledAt, {
      what: 'the look that the hook asked for',
      deadlineMs: 120_000,
      intervalMs: 300,
    });
    assert.match((await app.flynn(['source'])).stdout, /^last hook +looks: a push to main, \d+[sm] ago$/m);
    await app.flynn(['source', 'set', url, '--branch', 'nowhere', '--every', '1h']);
    assert.match((await app.flynn(['source', 'poll'], { code: 'any' })).stderr, /followed\.git has no branch nowhere/);
    await app.flynn(['source', 'off']);
    assert.equal((await app.get()).body, 'of a submodule, two');
  });

  test('an image in a registry is fetched with a login, and of it only what the cluster lacks', async () => {
    const cluster = theCluster();
    const files = await imageWith(cluster, 'dockerfile', 'srv/greeting', 'Hello from a registry\n');
    const asked: string[] = [];
    await using registry = await serve(cluster, (request, response) => {
      const { authorization } = request.headers;
      if (authorization !== `Basic ${Buffer.from('deployer:secret').toString('base64')}`) {
        response.writeHead(401, { 'www-authenticate': 'Basic realm="test"' }).end();
        return;
      }
      const name = (request.url ?? '').replace('/v2/team/app/', '');
      asked.push(name);
      const bytes = files.get(name);
      if (bytes === undefined) response.writeHead(404).end();
      else response.end(bytes);
    });
    const { address } = registry;
    const flynn = (args: readonly string[], options = {}) => cluster.flynn(['-a', 'fetched', ...args], options);
    await cluster.flynn(['create', 'fetched', '-r', '']);
    await cluster.flynn(['runner', 'env', 'set', `FLYNN_PLAIN_REGISTRIES=${address}`]);
    const image = `${address}/team/app:1.4`;
    const refused = await flynn(['deploy', '--image', image], { code: 1 });
    assert.match(refused.stdout + refused.stderr, /flynn registry login/);
    await cluster.flynn(['registry', 'login', address, '-u', 'deployer'], { input: 'secret\n' });
    assert.match((await cluster.flynn(['registry'])).stdout, new RegExp(`^${address} +deployer$`, 'm'));
    const deployed = await flynn(['deploy', '--image', image]);
    assert.match(deployed.stdout, /layer of \S+ MB: there already[\s\S]*=====> Application deployed/);
    assert.equal((await cluster.untilAnswers('fetched')).body, 'Hello from a registry\n');
    assert.deepEqual([...new Set(asked)].sort(), [...files.keys()].sort());
    await cluster.flynn(['registry', 'logout', address]);
  });
}
