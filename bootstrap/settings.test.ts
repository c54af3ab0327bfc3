import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { agentEnvironment, setupOf } from './agent/agent.ts';
import {
  type Cluster,
  gatewayOf,
  keptText,
  readOptions,
  refuseContradictions,
  settle,
  sharedSchema,
  forUpdate,
} from './settings.ts';
import { appUrlOf, gitUrlOf, httpsPortOf } from './domain/urls.ts';

const machine = {
  hostname: 'Web-1.example.com',
  address: '192.0.2.7',
  now: new Date(0),
  newSecret: () => 'secret',
  authority: { certificate: 'CERTIFICATE', privateKey: 'PRIVATE KEY' },
};
const made = (env: Record<string, string> = {}, stored?: Cluster): Cluster => settle(readOptions(env), stored, machine);

test('without any setting there is a cluster named flynn at flynn.localhost', () => {
  const cluster = made();
  assert.equal(cluster.name, 'flynn');
  assert.equal(appUrlOf('hello', cluster), 'http://hello.flynn.localhost');
  assert.equal(gitUrlOf(cluster), 'ssh://git@localhost:2222');
  assert.equal(cluster.hostId, 'web1examplecom');
  assert.equal(cluster.address, '192.0.2.7');
});

test('a domain of its own is used for apps and git, and another port is named', () => {
  const cluster = made({ FLYNN_DOMAIN: 'apps.example.com', FLYNN_HTTP_PORT: '8080', FLYNN_GIT_PORT: '22' });
  assert.equal(appUrlOf('hello', cluster), 'http://hello.apps.example.com:8080');
  assert.equal(gitUrlOf(cluster), 'ssh://git@apps.example.com:22');
});

test('TLS has a port beside that of HTTP, unless it is given one', () => {
  assert.equal(httpsPortOf(made()), 443);
  assert.equal(httpsPortOf(made({ FLYNN_HTTP_PORT: '8080' })), 8443);
  assert.equal(httpsPortOf(made({ FLYNN_HTTPS_PORT: '9443' })), 9443);
  assert.equal(httpsPortOf(made({}, made({ FLYNN_HTTPS_PORT: '9443' }))), 9443);
});

test('what was settled stays, whatever the machine is called by now', () => {
  const stored = made({ FLYNN_DOMAIN: 'apps.example.com' });
  const again = settle(readOptions({}), stored, {
    ...machine,
    hostname: 'other',
    address: '192.0.2.8',
    newSecret: () => 'new',
  });
  assert.deepEqual(again, stored);
});

test('a state directory is the same one however it is written: programs are found by its name', () => {
  for (const written of ['/srv/flynn', '/srv/flynn/', '/srv//flynn/.']) {
    assert.equal(readOptions({ FLYNN_STATE_DIR: written }).FLYNN_STATE_DIR, '/srv/flynn');
  }
});

test('the subnet of a host is of the range of all, by itself the first: others have no way to one that is outside', () => {
  assert.equal(made().subnet, '100.100.0.0/24');
  assert.equal(made({ FLYNN_RANGE: '10.231.0.0/16' }).subnet, '10.231.0.0/24');
  assert.equal(made({ FLYNN_RANGE: '10.231.0.0/16', FLYNN_SUBNET: '10.231.7.0/24' }).subnet, '10.231.7.0/24');
  assert.throws(
    () => made({ FLYNN_SUBNET: '10.231.0.0/24' }),
    (error) => hasCode(error, 'invalid') && /not of FLYNN_RANGE, 100\.100\.0\.0\/16/.test(error.message),
  );
  assert.throws(() => made({ FLYNN_RANGE: '10.231.0.0/24', FLYNN_SUBNET: '10.231.0.0/16' }));
});

test('ports and the address can be changed later', () => {
  const again = made({ FLYNN_HTTP_PORT: '8080', FLYNN_ADDRESS: '192.0.2.9' }, made());
  assert.equal(again.httpPort, 8080);
  assert.equal(again.address, '192.0.2.9');
  assert.deepEqual(again.etcdEndpoints, ['https://192.0.2.9:2379']);
});

test('a host that joined and moves asks for its own member where that is by now, which may be the only one', () => {
  const etcdEndpoints = ['https://192.0.2.1:2379', 'https://192.0.2.7:2379'];
  const joined: Cluster = { ...made(), hasPlatform: false, peers: ['192.0.2.1'], etcdEndpoints };
  const moved = made({ FLYNN_ADDRESS: '192.0.2.9' }, joined);
  assert.deepEqual(moved.etcdEndpoints, ['https://192.0.2.1:2379', 'https://192.0.2.9:2379']);
  assert.deepEqual(made({}, moved).etcdEndpoints, moved.etcdEndpoints);
  assert.deepEqual(made({}, joined).etcdEndpoints, etcdEndpoints);
});

test('another domain than the cluster’s is refused, and the message says what to do', () => {
  assert.throws(
    () => made({ FLYNN_DOMAIN: 'other.example.com' }, made()),
    /FLYNN_DOMAIN.*flynn\.localhost.*npm run up -- --domain other\.example\.com/,
  );
});

test('a host that joins, or has joined, cannot have settings of its own where the cluster has one', () => {
  const joined: Cluster = { ...made(), hasPlatform: false };
  assert.throws(
    () => refuseContradictions(readOptions({ FLYNN_HTTP_PORT: '8080' }), joined),
    /FLYNN_HTTP_PORT is 8080, but the cluster gives its hosts 80: unset it/,
  );
  assert.throws(() => made({ FLYNN_HTTP_PORT: '8080' }, joined), /FLYNN_HTTP_PORT/);
  refuseContradictions(readOptions({ FLYNN_DOMAIN: 'flynn.localhost', FLYNN_ADDRESS: '192.0.2.9' }), joined);
});

test('how hosts send what is for each other is the cluster’s: who joins is told, and each host may be told another later', () => {
  const cluster = made({ FLYNN_NETWORK_BACKEND: 'vxlan' });
  assert.ok(agentEnvironment(readOptions({}), made({}, cluster)).includes('FLYNN_NETWORK_BACKEND=vxlan\n'));
  assert.ok(!agentEnvironment(readOptions({}), made()).includes('FLYNN_NETWORK_BACKEND'));
  const told = sharedSchema.parse(JSON.parse(JSON.stringify(cluster)));
  assert.equal(told.networkBackend, 'vxlan');
  const joined: Cluster = { ...made(), ...told, hasPlatform: false };
  assert.equal(made({}, joined).networkBackend, 'vxlan');
  assert.throws(
    () => refuseContradictions(readOptions({ FLYNN_NETWORK_BACKEND: 'auto' }), joined),
    /FLYNN_NETWORK_BACKEND is auto, but the cluster gives its hosts vxlan: unset it/,
  );
  refuseContradictions(readOptions({ FLYNN_NETWORK_BACKEND: 'auto' }), made());
  // One host after the other.
  for (const host of [cluster, joined]) {
    assert.equal(made({ FLYNN_NETWORK_BACKEND: 'direct' }, host).networkBackend, 'direct');
  }
});

test('settings that cannot work are refused by name', () => {
  const wrong: [string, string][] = [
    ['FLYNN_HTTP_PORT', '0'],
    ['FLYNN_HTTP_PORT', 'eighty'],
    ['FLYNN_DOMAIN', 'no spaces.example'],
    ['FLYNN_DOMAIN', 'single'],
    ['FLYNN_SUBNET', '10.0.0.0'],
    ['FLYNN_SUBNET', '10.0.0.7/24'],
    ['FLYNN_STATE_DIR', 'relative'],
    ['FLYNN_CLUSTER', 'has-dash'],
    ['FLYNN_SCHEDULERS', 'cheapest.ts'],
    ['FLYNN_DNS_UPSTREAMS', 'dns.example.com'],
    ['FLYNN_NETWORK_BACKEND', 'wireguard'],
    ['FLYNN_CLOUD_METADATA', 'yes'],
    ['FLYNN_DOMIAN', 'apps.example.com'],
  ];
  for (const [name, value] of wrong)
    assert.throws(() => readOptions({ [name]: value }), new RegExp(name), `${name}=${value}`);
});

test('the gateway is the first address of the subnet', () => {
  assert.equal(gatewayOf('100.100.0.0/24'), '100.100.0.1');
  assert.equal(gatewayOf('10.1.2.128/25'), '10.1.2.129');
  assert.equal(gatewayOf('172.16.0.0/16'), '172.16.0.1');
});

test('the agent is told where it is and where the store is', () => {
  const cluster = made();
  const lines = agentEnvironment(readOptions({}), cluster).split('\n');
  assert.ok(lines.includes('FLYNN_ETCD_ENDPOINTS=https://192.0.2.7:2379'));
  assert.ok(lines.includes('FLYNN_HOST_ID=web1examplecom'));
  assert.ok(!lines.some((line) => line.startsWith('FLYNN_DNS_UPSTREAMS') || line.startsWith('FLYNN_SCHEDULERS')));
  const own = made({ FLYNN_SCHEDULERS: '/srv/cheapest.ts,/srv/night.ts' });
  assert.ok(agentEnvironment(readOptions({}), own).includes('FLYNN_SCHEDULERS=/srv/cheapest.ts,/srv/night.ts\n'));
  const opened = made({ FLYNN_CLOUD_METADATA: 'open' });
  assert.ok(agentEnvironment(readOptions({}), made({}, opened)).includes('FLYNN_CLOUD_METADATA=open\n'));
  assert.ok(!agentEnvironment(readOptions({}), made({ FLYNN_CLOUD_METADATA: '' }, opened)).includes('METADATA'));
});

test('what an `up` was given for this host is kept, shown by later ones, and taken away by an empty value', () => {
  const given = {
    FLYNN_SCHEDULERS: '/srv/cheapest.ts',
    FLYNN_DNS_UPSTREAMS: '192.0.2.53',
    FLYNN_SUPERVISOR: 'own',
  };
  const cluster = made(given);
  assert.deepEqual(keptText(cluster, readOptions(given)), []);
  const again = made({}, cluster);
  assert.deepEqual(again, cluster);
  assert.deepEqual(keptText(again, readOptions({})), [
    'FLYNN_DNS_UPSTREAMS is 192.0.2.53, as an earlier up was told; FLYNN_DNS_UPSTREAMS= npm run up takes it away',
    'FLYNN_SCHEDULERS is /srv/cheapest.ts, as an earlier up was told; FLYNN_SCHEDULERS= npm run up takes it away',
    'FLYNN_SUPERVISOR is own, as an earlier up was told; FLYNN_SUPERVISOR= npm run up takes it away',
  ]);
  assert.equal(setupOf(readOptions({}), again).supervisor, 'own');
  assert.equal('supervisor' in made({ FLYNN_SUPERVISOR: '' }, cluster), false);
  // What an agent of before hands on as it finds it was not given by anybody.
  const handed = forUpdate(readOptions({ FLYNN_SUPERVISOR: 'own', FLYNN_DNS_UPSTREAMS: '192.0.2.54' }));
  const updated = settle(handed, made(), machine);
  assert.deepEqual([updated.supervisor, updated.dnsUpstreams], [undefined, '192.0.2.54']);
  assert.equal(settle(handed, cluster, machine).supervisor, 'own', 'what an up was given stays');
  // Of one host alone it would be, and a version of before refuses it.
  assert.equal('FLYNN_NETWORK_BACKEND' in forUpdate(readOptions({ FLYNN_NETWORK_BACKEND: 'vxlan' })), false);
  assert.equal('FLYNN_CLOUD_METADATA' in forUpdate(readOptions({ FLYNN_CLOUD_METADATA: 'open' })), false);
  assert.equal(made({ FLYNN_SCHEDULERS: '/srv/night.ts' }, cluster).schedulers, '/srv/night.ts');
  const emptied = made({ FLYNN_SCHEDULERS: '' }, cluster);
  assert.equal('schedulers' in emptied, false);
  assert.equal(emptied.dnsUpstreams, '192.0.2.53');
  // They are this host's: one that joins is not told.
  assert.equal('dnsUpstreams' in sharedSchema.parse(cluster), false);
});

test('a path that systemd or a shell would take for something else is refused', () => {
  for (const path of ['/srv/a b', '/srv/100%', '/srv/$x', '/srv/"x"', '/srv/a\\b', '/srv/#1']) {
    assert.throws(() => readOptions({ FLYNN_STATE_DIR: path }), /FLYNN_STATE_DIR.*without spaces/s, path);
    assert.throws(() => readOptions({ FLYNN_SCHEDULERS: `/srv/x.ts,${path}` }), /FLYNN_SCHEDULERS.*without spaces/s);
  }
  assert.equal(readOptions({ FLYNN_STATE_DIR: '/srv/flynn-1_2.3@x' }).FLYNN_STATE_DIR, '/srv/flynn-1_2.3@x');
});
