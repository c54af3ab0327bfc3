import assert from 'node:assert/strict';
import { once } from 'node:events';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { pipeline } from 'node:stream';
import { test } from 'node:test';
import { createServer } from 'node:tls';
import { fingerprintOf } from '@flynn/kit/certificate';
import { type Credentials, createAuthority, endorse, issueCertificate } from '@flynn/kit/tls';
import { loadClusters } from './clusters.ts';
import { Desk, openDeskWithController } from '../testing.ts';

type Front = AsyncDisposable & { url: string; show: (credentials: Credentials) => void };

/** As the router does it: TLS to people, and the controller behind it. */
async function startFront(backend: string, first: Credentials): Promise<Front> {
  const { hostname, port } = new URL(backend);
  const contextOf = ({ certificate, privateKey }: Credentials) => ({ cert: certificate, key: privateKey });
  const server = createServer(contextOf(first), (socket) => {
    const inner = connect(Number(port), hostname);
    // Either side may go first: what is left of the other then is of no use.
    pipeline(socket, inner, () => inner.destroy());
    pipeline(inner, socket, () => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  return {
    url: `https://127.0.0.1:${address.port}`,
    show: (credentials) => server.setSecureContext(contextOf(credentials)),
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, 'close');
    },
  };
}

/** A certificate for this machine, with its authority's, as `up` makes the controller's. */
async function certificateOf(
  authority: Credentials,
  options: { addresses?: string[]; now?: number; behind?: string } = {},
) {
  const { addresses = ['127.0.0.1'], behind = '', ...times } = options;
  const own = await issueCertificate(authority, { name: 'controller', addresses, isServerOnly: true, ...times });
  return { ...own, certificate: own.certificate + behind + authority.certificate };
}

test('a cluster is pinned to its authority, and nobody else is taken for it', async () => {
  const [authority, stranger] = await Promise.all([createAuthority('flynn'), createAuthority('flynn')]);
  const [pin, other] = [authority, stranger].map(({ certificate }) => fingerprintOf(certificate));
  assert.ok(pin !== undefined && other !== undefined);
  await using env = await openDeskWithController({ gitHostKey: 'ssh-ed25519 AAAA' });
  await using front = await startFront(env.controller.url, await certificateOf(authority));
  await using desk = await Desk.open();
  const add = (...options: string[]) =>
    desk.run(['cluster', 'add', 'home', front.url, env.controller.userKey, ...options]);

  const unpinned = await add();
  assert.equal(unpinned.code, 1);
  assert.match(
    unpinned.stderr,
    new RegExp(`not to be trusted: [^]*on the host that keeps the platform;[^]*--pin ${pin}`),
  );
  const wrong = await add('--pin', other);
  assert.equal(wrong.code, 1);
  assert.match(wrong.stderr, new RegExp(`is not the cluster that is pinned[^]*${pin}[^]*${other}`));
  assert.deepEqual((await loadClusters(desk.configDirectory)).clusters, []);

  const written = pin.toUpperCase().replaceAll(/..(?=.)/g, '$&:');
  const added = await add('--pin', written);
  assert.equal(added.code, 0, added.stderr);
  assert.equal(
    await readFile(join(desk.configDirectory, 'known_hosts'), 'utf8'),
    '[flynn.localhost]:2222 ssh-ed25519 AAAA\n',
  );
  assert.equal((await desk.run(['apps'])).code, 0);
  assert.match((await desk.run(['cluster', '--json'])).stdout, new RegExp(`"authority": "${pin}"`));
  assert.match(
    (await desk.run(['user', 'add', 'ann'])).stdout,
    new RegExp(`flynn cluster add home \\S+ \\S+ --pin ${pin}\n`),
  );
  await env.controller.deployApp('shop', { web: {} });
  const ran = await desk.run(['run', '-a', 'shop', 'cat'], { input: 'over TLS' });
  assert.equal(ran.code, 0, ran.stderr);

  front.show(await certificateOf(stranger));
  const refused = await desk.run(['apps']);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, new RegExp(`is not the cluster that is pinned[^]*${other}[^]*${pin}`));
  const unread = await desk.run(['status']);
  assert.equal(unread.code, 2, 'who it is not the cluster has not said that all is well');
  assert.match(
    unread.stdout,
    new RegExp(
      `^✗ controller: what answers at \\S+ is not the cluster that is pinned\n    it shows [^]*${other}[^]*${pin}`,
    ),
  );
  const told = JSON.parse((await desk.run(['doctor', '--json'])).stdout) as { error: string; remedy: string };
  assert.match(told.error, /is not the cluster that is pinned$/);
  assert.match(told.remedy, /^it shows [^]*somebody may stand in between/);
  front.show(await certificateOf(authority, { addresses: ['elsewhere.example.com'] }));
  assert.match(
    (await desk.run(['apps'])).stderr,
    /not to be trusted: .*127\.0\.0\.1[^]*of the authority that is pinned/,
  );
});

test('a cluster that is pinned to two authorities is known by either, and nobody else is', async () => {
  const [former, next, stranger] = await Promise.all(['flynn', 'flynn', 'flynn'].map((name) => createAuthority(name)));
  assert.ok(former !== undefined && next !== undefined && stranger !== undefined);
  await using env = await openDeskWithController();
  await using front = await startFront(env.controller.url, await certificateOf(former));
  const { desk } = env;
  const ca = join(desk.home, 'ca.pem');
  await writeFile(ca, next.certificate + former.certificate);
  const added = await desk.run(['cluster', 'add', 'home', front.url, env.controller.userKey, '--ca', ca]);
  assert.equal(added.code, 0, added.stderr);
  for (const one of [former, next]) {
    front.show(await certificateOf(one));
    assert.equal((await desk.run(['apps', '-c', 'home'])).code, 0);
  }
  front.show(await certificateOf(stranger));
  const { stderr } = await desk.run(['apps', '-c', 'home']);
  const [one, other, found] = [next, former, stranger].map(({ certificate }) => fingerprintOf(certificate));
  assert.match(
    stderr,
    new RegExp(`is not the cluster that is pinned[^]*${found}[^]*${one} or ${other}[^]*keeps its platform prints`),
  );
  front.show(await certificateOf(former, { addresses: ['elsewhere.example.com'] }));
  assert.match(
    (await desk.run(['apps', '-c', 'home'])).stderr,
    /not to be trusted: [^]*of the authority that is pinned/,
  );
});

test('a cluster whose authority was made anew is known by the word of the one that is pinned, and pinned to its own then', async () => {
  const [former, next, stranger] = await Promise.all(['flynn', 'flynn', 'flynn'].map((name) => createAuthority(name)));
  assert.ok(former !== undefined && next !== undefined && stranger !== undefined);
  await using env = await openDeskWithController();
  await using front = await startFront(env.controller.url, await certificateOf(former));
  const { desk } = env;
  const pinned = async () =>
    (await loadClusters(desk.configDirectory)).clusters.find(({ name }) => name === 'home')?.ca;
  const pin = fingerprintOf(former.certificate);
  const added = await desk.run(['cluster', 'add', 'home', front.url, env.controller.userKey, '--pin', pin]);
  assert.equal(added.code, 0, added.stderr);

  const own = await certificateOf(next, { behind: await endorse(next.certificate, former) });
  front.show(own);
  const first = await desk.run(['apps', '-c', 'home', '--json']);
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stderr, new RegExp(`home has made its authority anew[^]*${fingerprintOf(next.certificate)}`));
  assert.equal(await pinned(), next.certificate);
  assert.equal((await desk.run(['apps', '-c', 'home'])).stderr, '');

  // Who has the former one's key is nobody from then on; and nobody's word counts but that of the one that is pinned.
  front.show(await certificateOf(former));
  assert.equal((await desk.run(['apps', '-c', 'home'])).code, 1);
  front.show(await certificateOf(stranger, { behind: await endorse(stranger.certificate, former) }));
  assert.match((await desk.run(['apps', '-c', 'home'])).stderr, /is not the cluster that is pinned/);
  assert.equal(await pinned(), next.certificate);
});

test('what a command has done, and how its job ended, stands where the new authority cannot be pinned', async () => {
  const [former, next] = await Promise.all([createAuthority('flynn'), createAuthority('flynn')]);
  await using env = await openDeskWithController();
  await using front = await startFront(env.controller.url, await certificateOf(former));
  const { desk } = env;
  const pin = fingerprintOf(former.certificate);
  const added = await desk.run(['cluster', 'add', 'home', front.url, env.controller.userKey, '--pin', pin]);
  assert.equal(added.code, 0, added.stderr);
  await env.controller.deployApp('shop', { web: {} });
  env.controller.setBehaviour(() => ({ is: 'exit', code: 7 }));
  // The list can be read there; what it is written beside would have a path that is too long for the system.
  const folder = `${desk.home}${`/${'d'.repeat(200)}`.repeat(20)}`;
  const full = join(folder, 'e'.repeat(4_080 - folder.length - 1));
  await mkdir(full, { recursive: true });
  await copyFile(join(desk.configDirectory, 'clusters.json'), join(full, 'clusters.json'));
  front.show(await certificateOf(next, { behind: await endorse(next.certificate, former) }));
  const ran = await desk.run(['run', '-a', 'shop', '-c', 'home', 'job'], { env: { FLYNN_CONFIG_DIR: full } });
  assert.equal(ran.code, 7, ran.stderr);
  assert.match(ran.stderr, /could not be pinned: ENAMETOOLONG[^]*stays pinned; the next command tries it again\n$/);
  const again = await desk.run(['apps', '-c', 'home']);
  assert.deepEqual([again.code, /pinned is now/.test(again.stderr)], [0, true], again.stderr);
});

test('an authority is pinned from a file, and only an authority', async () => {
  const authority = await createAuthority('flynn');
  const own = await certificateOf(authority);
  await using env = await openDeskWithController();
  await using front = await startFront(env.controller.url, own);
  const { desk } = env;
  const [ca, leaf] = [join(desk.home, 'ca.pem'), join(desk.home, 'leaf.pem')];
  await writeFile(ca, authority.certificate);
  await writeFile(leaf, own.certificate);
  const add = (url: string, ...options: string[]) =>
    desk.run(['cluster', 'add', 'home', url, env.controller.userKey, ...options]);
  const added = await add(front.url, '--ca', ca);
  assert.equal(added.code, 0, added.stderr);
  assert.equal((await desk.run(['apps', '-c', 'home'])).code, 0);
  const told = async (url: string, ...options: string[]) => {
    const { code, stderr } = await add(url, ...options);
    return `${code} ${stderr}`;
  };
  assert.match(await told(front.url, '--ca', leaf), /^2 .* is no certificate of an authority/);
  assert.match(await told(front.url, '--pin', 'abc'), /^2 .* 64 hexadecimal digits/);
  assert.match(await told(env.controller.url, '--ca', ca), /^2 .* begins with https:/);
  assert.match(await told(front.url, '--ca', ca, '--pin', 'a'.repeat(64)), /^1 .*not the cluster that is pinned/);
});
