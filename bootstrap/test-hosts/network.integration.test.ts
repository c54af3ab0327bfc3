/** Networks of test hosts that are made and removed at the same time, as suites that run side by side do it. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { once } from 'node:events';
import { readlink } from 'node:fs/promises';
import { test } from 'node:test';
import { runProgram, tryProgram } from '../machine/program.ts';
import {
  type HostNetwork,
  cutHostNetwork,
  ensureHostNetwork,
  hostNetworkOf,
  namespaceFile,
  removeHostNetwork,
  suiteHosts,
} from './network.ts';

const rounds = 5;
const networks = [80, 81, 82].map((index) => hostNetworkOf(suiteHosts, `network${index}`, index));

test('hosts that come and go at the same time share one bridge', async () => {
  const [first, ...others] = networks;
  assert.ok(first !== undefined);
  try {
    for (let round = 0; round < rounds; round += 1) {
      await Promise.all(networks.map(ensureHostNetwork));
      for (const network of networks) {
        assert.ok(existsSync(namespaceFile(network)), network.namespace);
        assert.match(await readlink(`/sys/class/net/${network.link}/master`), /flynntest0$/);
      }
      // One comes back while the others, and perhaps the bridge with them, go.
      await removeHostNetwork(first);
      await Promise.all([ensureHostNetwork(first), ...others.map(removeHostNetwork)]);
      assert.match(await readlink(`/sys/class/net/${first.link}/master`), /flynntest0$/);
      await removeHostNetwork(first);
    }
    for (const network of networks) assert.ok(!existsSync(namespaceFile(network)), network.namespace);
  } finally {
    await Promise.all(networks.map(removeHostNetwork));
  }
});

test('a host that lost its power answers from the first packet after its boot on, under the address others knew it by', async () => {
  const [one, other] = [85, 86].map((index) => hostNetworkOf(suiteHosts, `network${index}`, index));
  assert.ok(one !== undefined && other !== undefined);
  const cardOf = async () => {
    const link = await runProgram('ip', ['-n', one.namespace, '-br', 'link', 'show', 'eth0'], { timeoutMs: 10_000 });
    return /\s((?:[0-9a-f]{2}:){5}[0-9a-f]{2})\s/.exec(link)?.[1];
  };
  const resent = async () => {
    const table = await runProgram('nsenter', [...within(other), 'cat', '/proc/net/netstat'], { timeoutMs: 10_000 });
    const [names = [], values = []] = table
      .split('\n')
      .flatMap((line) => (line.startsWith('TcpExt:') ? [line.split(' ')] : []));
    const count = Number(values[names.indexOf('TCPSynRetrans')]);
    assert.ok(count >= 0, table);
    return count;
  };
  try {
    await Promise.all([one, other].map(ensureHostNetwork));
    // Nobody listens: refused is an answer.
    const connect = ['timeout', '8', 'bash', '--norc', '-c', `: </dev/tcp/${one.address}/9`];
    const answer = async () =>
      (await tryProgram('nsenter', [...within(other), ...connect], { timeoutMs: 10_000 })).stderr;
    assert.match(await answer(), /refused/);
    const card = await cardOf();
    assert.ok(card);
    await cutHostNetwork(one);
    await ensureHostNetwork(one);
    assert.equal(await cardOf(), card);
    const sentAgain = await resent();
    assert.match(await answer(), /refused/);
    assert.equal(await resent(), sentAgain, 'the first packet had its answer');
  } finally {
    await Promise.all([one, other].map(removeHostNetwork));
  }
});

test('a host behind NAT reaches out, and nobody reaches in', async () => {
  const outside = hostNetworkOf(suiteHosts, 'network83', 83);
  const inside = hostNetworkOf(suiteHosts, 'network84', 84, { isBehindNat: true });
  const listeners: ChildProcess[] = [];
  const isReached = async (from: HostNetwork, to: HostNetwork): Promise<boolean> => {
    const script = `timeout 5 bash --norc -c ': </dev/tcp/${to.address}/9000'`;
    return (await tryProgram('nsenter', [...within(from), 'sh', '-c', script], { timeoutMs: 10_000 })).code === 0;
  };
  try {
    await Promise.all([outside, inside].map(ensureHostNetwork));
    for (const network of [outside, inside]) listeners.push(await listenIn(network));
    assert.ok(await isReached(inside, outside));
    assert.ok(await isReached(inside, inside));
    assert.ok(!(await isReached(outside, inside)));
  } finally {
    for (const listener of listeners) listener.kill('SIGKILL');
    await Promise.all([outside, inside].map(removeHostNetwork));
  }
});

const within = (network: HostNetwork): [string] => [`--net=${namespaceFile(network)}`];

/** Resolves when it listens at port 9000 of every address there. */
async function listenIn(network: HostNetwork): Promise<ChildProcess> {
  const script = `require('node:net').createServer((socket) => socket.end()).listen(9000, () => console.log('listens'))`;
  const child = spawn('nsenter', [...within(network), process.execPath, '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data', { signal: AbortSignal.timeout(60_000) });
  return child;
}
