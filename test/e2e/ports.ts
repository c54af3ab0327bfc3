/** Who reaches what: every port anything of the cluster listens on, tried by those who have no business there. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { runProgram } from '@flynn/bootstrap/machine/program';
import { gatewayOf } from '@flynn/bootstrap/settings';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { suiteHosts } from '@flynn/bootstrap/test-hosts/network';
import { TestHost } from '@flynn/bootstrap/test-hosts/test-host';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';
import type { Finding, ProbeInput, Target } from './port-probe.ts';

const program = join(import.meta.dirname, 'port-probe.ts');
const bin = join(import.meta.dirname, '../../bin');
const timeoutMs = 600_000;

/** Something of each part: whatever listens there, one of these would tell something. `/ping` is for everybody. */
const paths = [
  ['/', '/metrics', '/metrics-targets'],
  [
    '/host',
    '/hosts',
    '/jobs',
    '/stats',
    '/status',
    '/doctor',
    '/doctor/cluster',
    '/image?name=flynn/node',
    '/workloads',
  ],
  ['/services', '/instances', '/services/blobstore/instances'],
  ['/blobs', '/names', '/apps', '/apps/x/log', '/logs', '/routes', '/word', '/releases', '/users'],
  ['/v2/keys', '/v3/kv/range', '/version', '/health', '/members', '/debug/pprof'],
].flat();

/** Who looks: from where, and at whose addresses something is meant to answer. */
type Stranger = {
  name: string;
  probe: (input: ProbeInput) => Promise<Finding[]>;
  isMeant: (target: Target) => boolean;
};

/** The router's doors, for HTTP, TLS and pushes. */
const publicPorts = new Set([80, 443, 2222]);

/** Besides those: names, and discovery. */
const openToHosts = new Set([...publicPorts, 53, 1111]);

export function describePorts(theCluster: () => TestCluster): void {
  test('of all ports that anything listens on, strangers get an answer of the public ones alone', async () => {
    const cluster = theCluster();
    const targets = await listenersOfAll(cluster);
    const stranger = await issueCertificate(await createAuthority('a stranger'), { name: 'controller' });
    const input = { targets, paths, ...stranger };
    await using neighbour = await openNeighbour(cluster);
    for (const { name, probe, isMeant } of [neighbour.stranger, await strangerInApp(cluster)]) {
      const findings = await probe(input);
      const told = findings.filter(({ verdict }) => verdict === 'answers');
      assert.deepEqual(
        told.filter((finding) => !isMeant(finding)),
        [],
        `${name} gets answers it should not`,
      );
      // What is open to it is seen to be: a probe that reaches nothing would find nothing.
      for (const { address } of cluster.hosts) {
        assert.ok(
          told.some((finding) => finding.address === address && finding.port === 80),
          `${name} does not reach the router at ${address}: ${JSON.stringify(findings)}`,
        );
      }
    }
  });

  test('the right keys without a certificate open nothing of the platform, not even to one of its hosts', async () => {
    const cluster = theCluster();
    const { key = '', controllerKey = '' } = (await cluster.host.readCluster()) ?? {};
    assert.ok(key !== '' && controllerKey !== '');
    /** Apps' containers are those that are there before and after the look at the rest: one may come meanwhile. */
    const targetsNow = async (): Promise<Target[]> => {
      const before = await ofAllHosts(cluster, appAddressesOf);
      const all = await listenersOfAll(cluster);
      const apps = new Set([...before, ...(await ofAllHosts(cluster, appAddressesOf))]);
      const targets = all.filter(
        ({ protocol, address, port }) => protocol === 'tcp' && !openToHosts.has(port) && !apps.has(address),
      );
      for (const port of [1113, 1114, 1116, 3000, 8080])
        assert.ok(
          targets.some((target) => target.port === port),
          `${port}`,
        );
      return targets;
    };
    const stranger = await issueCertificate(await createAuthority('a stranger'), { name: 'controller' });
    // Figures are for whoever has the key.
    const input = { paths: paths.filter((path) => !path.startsWith('/metrics')), ...stranger };
    let told: Finding[] = [];
    const isClosed = async (): Promise<boolean> => {
      // Each time: an address that one of the platform's parts had is an app's, when that has ended and this began.
      const findings = await run(cluster.host.command([process.execPath, program]), {
        ...input,
        targets: await targetsNow(),
        keys: [key, controllerKey],
      });
      told = findings.filter(({ verdict }) => verdict === 'answers');
      return told.length === 0;
    };
    // Each host says that it has nobody left who comes so, and the others hear it.
    await waitFor(isClosed, { what: 'all parts to be closed', deadlineMs: 600_000, intervalMs: 1_000 }).catch(
      (error: unknown) => {
        assert.deepEqual(told, [], 'a key alone gets answers');
        throw error;
      },
    );
  });

  test('the controller takes no key over http://, and shows people without one the way', async () => {
    const cluster = theCluster();
    const { controllerKey = '' } = (await cluster.host.readCluster()) ?? {};
    assert.match((await cluster.flynn(['cluster'])).stdout, /https:\/\/controller\./);
    const headers = { authorization: `Bearer ${controllerKey}` };
    const refused = await cluster.get('controller', '/apps', { headers });
    assert.equal(refused.status, 403, refused.body);
    assert.match(refused.body, new RegExp(`https://controller\\.${cluster.domain}.*flynn cluster add`));
    const shown = await cluster.get('controller', '/apps');
    assert.deepEqual([shown.status, shown.headers['location']], [308, `https://controller.${cluster.domain}/apps`]);
  });

  test('with every certificate made anew the cluster goes on, and a key without one opens no agent', async () => {
    const cluster = theCluster();
    const before = await certificatesOf(cluster);
    const members = cluster.host.pids('etcd --').join();
    const after = await certificatesOf(cluster, 'renew');
    for (const host of cluster.hosts) assert.ok(after.has(`flynn:host/${host.name} `), [...after.keys()].join());
    assert.ok([...after.keys()].some((name) => name.startsWith('flynn:app/controller ')));
    for (const [name, fingerprint] of after) assert.notEqual(fingerprint, before.get(name), name);
    await cluster.untilHealthy('express');
    // Through the controller to an agent, and with layers of the blob store.
    assert.match((await cluster.flynn(['-a', 'express', 'run', 'echo', 'as', 'before'])).stdout, /as before/);
    assert.equal(cluster.host.pids('etcd --').join(), members);
    const { key = '' } = (await cluster.host.readCluster()) ?? {};
    const url = `http://${cluster.host.address}:1113/jobs`;
    await waitFor(async () => (await statusOf(url, key)) === 401, {
      what: 'the agent to take no key without a certificate',
      deadlineMs: 180_000,
      intervalMs: 500,
    });
  });
}

/** What the hosts of the cluster and their jobs show each other, by whose it is. */
async function certificatesOf(cluster: TestCluster, ...command: string[]): Promise<Map<string, string>> {
  const options = ['--state-dir', cluster.host.stateDir, 'certificates', '--all', '--json'];
  const { stdout } = await cluster.exec([join(bin, 'flynn-host'), ...options, ...command]);
  const told = JSON.parse(stdout) as {
    host: string;
    certificates: { role: string; jobId?: string; fingerprint: string }[];
  }[];
  return new Map(
    told.flatMap(({ certificates }) =>
      certificates.map(({ role, jobId = '', fingerprint }) => [`${role} ${jobId}`, fingerprint]),
    ),
  );
}

async function statusOf(url: string, key: string): Promise<number> {
  const answer = await fetch(url, { headers: { authorization: `Bearer ${key}` }, signal: AbortSignal.timeout(10_000) });
  await answer.body?.cancel();
  return answer.status;
}

const listenersOfAll = (cluster: TestCluster): Promise<Target[]> => ofAllHosts(cluster, listenersOf);

/** Again where a container ended while it was looked at. */
function ofAllHosts<T>(
  cluster: TestCluster,
  look: (cluster: TestCluster, host: ClusterHost) => Promise<T[]>,
): Promise<T[]> {
  return waitFor(async () => (await Promise.all(cluster.hosts.map((host) => look(cluster, host)))).flat(), {
    what: 'a look at all hosts',
    deadlineMs: 180_000,
    intervalMs: 500,
  });
}

/** Every socket that listens on more than loopback, of the host and of each container of it. */
async function listenersOf(cluster: TestCluster, host: ClusterHost): Promise<Target[]> {
  const settled = await host.readCluster();
  assert.ok(settled);
  const own = await listening(host.command(['ss', '-Hlntu']));
  const running = (await cluster.dockerOf(host, 'ps', '-q')).stdout.split('\n').filter((id) => id !== '');
  const inside = await Promise.all(
    (await placesOf(cluster, host, running)).map(async ({ pid, address }) =>
      targetsAt([address], await listening(inNetworkOf(pid, ['ss', '-Hlntu']))),
    ),
  );
  assert.ok(inside.flat().length > 0, `no container on ${host.name} listens`);
  return [...targetsAt([host.address, gatewayOf(settled.subnet)], own), ...inside.flat()];
}

/** Where jobs of apps listen: hosts reach them all, for checking their health. */
async function appAddressesOf(cluster: TestCluster, host: ClusterHost): Promise<string[]> {
  const format = '{{.ID}} {{.Label "flynn.access"}}';
  const { stdout } = await cluster.dockerOf(host, 'ps', '--filter', 'label=flynn.job', '--format', format);
  const ids = stdout.split('\n').flatMap((line) => {
    const [id = '', access = ''] = line.trim().split(' ');
    return id !== '' && access === '' ? [id] : [];
  });
  return (await placesOf(cluster, host, ids)).map(({ address }) => address);
}

/** Of containers with an address of their own: others are in the host's network. */
async function placesOf(cluster: TestCluster, host: ClusterHost, ids: readonly string[]) {
  if (ids.length === 0) return [];
  const format = '{{.State.Pid}} {{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}';
  const { stdout } = await cluster.dockerOf(host, 'inspect', '-f', format, ...ids);
  return stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(' '))
    .flatMap(([pid, address]) => (pid === undefined || address === undefined ? [] : [{ pid, address }]));
}

const inNetworkOf = (pid: string, command: string[]): [string, string[]] => [
  'nsenter',
  [`--net=/proc/${pid}/ns/net`, ...command],
];

type Listening = { protocol: 'tcp' | 'udp'; address: string; port: number };

async function listening([command, args]: [string, string[]]): Promise<Listening[]> {
  const lines = (await runProgram(command, args, { timeoutMs: 20_000 })).split('\n').filter((line) => line !== '');
  return lines.map((line) => {
    const [protocol, , , , local = ''] = line.split(/\s+/);
    const at = local.lastIndexOf(':');
    assert.ok(protocol === 'tcp' || protocol === 'udp', line);
    return { protocol, address: local.slice(0, at).replace(/%.*$/, ''), port: Number(local.slice(at + 1)) };
  });
}

/** What listens on one address is tried at all of the machine's: rules may fail where binding does not. */
function targetsAt(addresses: readonly string[], found: readonly Listening[]): Target[] {
  const outside = found.filter(({ address }) => !/^(127\.|\[::1\])/.test(address));
  const names = addresses.flatMap((address) => outside.map(({ protocol, port }) => `${protocol} ${address} ${port}`));
  return [...new Set(names)].map((name) => {
    const [protocol, address = '', port] = name.split(' ');
    return { protocol: protocol === 'udp' ? 'udp' : 'tcp', address, port: Number(port) };
  });
}

async function run(command: [string, string[]], input: ProbeInput): Promise<Finding[]> {
  const [name, args] = command;
  return JSON.parse(await runProgram(name, args, { timeoutMs, input: JSON.stringify(input) })) as Finding[];
}

/** A machine on the hosts' network that is no host, and knows by which of them each container is reached. */
async function openNeighbour(cluster: TestCluster): Promise<AsyncDisposable & { stranger: Stranger }> {
  const machine = new TestHost(suiteHosts, `${cluster.host.name}x`, 90);
  await machine.create();
  for (const host of cluster.hosts) {
    const settled = await host.readCluster();
    assert.ok(settled);
    const { code, stderr } = await machine.exec(['ip', 'route', 'add', settled.subnet, 'via', host.address]);
    assert.equal(code, 0, stderr);
  }
  const hosts = new Set(cluster.hosts.map(({ address }) => address));
  return {
    stranger: {
      name: 'a neighbour',
      probe: (input) => run(machine.command([process.execPath, program]), input),
      isMeant: ({ protocol, address, port }) => protocol === 'tcp' && hosts.has(address) && publicPorts.has(port),
    },
    [Symbol.asyncDispose]: () => machine[Symbol.asyncDispose](),
  };
}

/** In the network of one of an app's containers. It reaches its own app, and names. */
async function strangerInApp(cluster: TestCluster): Promise<Stranger> {
  const places = await Promise.all(
    cluster.hosts.map(async (host) => placesOf(cluster, host, await cluster.containers('express', 'web', host))),
  );
  const [first] = places.flat();
  assert.ok(first);
  const own = new Set(places.flat().map(({ address }) => address));
  const gateways = await Promise.all(
    cluster.hosts.map(async (host) => gatewayOf((await host.readCluster())?.subnet ?? '')),
  );
  const doors = new Set([...cluster.hosts.map(({ address }) => address), ...gateways]);
  return {
    name: "an app's container",
    probe: (input) => run(inNetworkOf(first.pid, [process.execPath, program]), input),
    isMeant: ({ address, port }) =>
      own.has(address) || (doors.has(address) && publicPorts.has(port)) || (gateways.includes(address) && port === 53),
  };
}
