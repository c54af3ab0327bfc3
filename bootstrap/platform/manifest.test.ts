import assert from 'node:assert/strict';
import { test } from 'node:test';
import { etcdResident } from '@flynn/host-agent/cluster/etcd-resident';
import { residentSchema } from '@flynn/host-agent/jobs/resident';
import { configSchema, readSettings } from '@flynn/controller/config';
import { kindNames } from '@flynn/controller/datastores/kinds';
import { type Release, type Route, routeSchema } from '@flynn/controller/model';
import { processSchema } from '@flynn/controller/processes/process';
import { workloadInputSchema } from '@flynn/scheduler/cell';
import { firstWorkloads } from './controller.ts';
import { type ImageName, imageNames } from '../images/recipes.ts';
import { manifestOf } from './manifest.ts';
import { isCurrent, routeChanges } from './part.ts';
import { readOptions, settle } from '../settings.ts';

const cluster = settle(readOptions({}), undefined, {
  hostname: 'host',
  address: '192.0.2.7',
  now: new Date(0),
  newSecret: () => 'secret',
  authority: { certificate: 'CERTIFICATE', privateKey: 'PRIVATE KEY' },
});
const images = new Map<ImageName, string>(imageNames.map((name) => [name, `flynn/${name}:1`]));
const input = {
  cluster,
  images,
  sshHostKey: 'KEY',
  sshHostPublicKey: 'ssh-ed25519 AAAA flynn\n',
  builderEnv: { NPM_CONFIG_REGISTRY: 'https://npm.example/' },
  hostMemoryBytes: 8e9,
  controllerCertificate: { certificate: 'CERTIFICATE', privateKey: 'PRIVATE KEY' },
};
const manifest = manifestOf(input);
const appNamed = (name: string) => {
  const app = manifest.find((one) => one.name === name);
  assert.ok(app, name);
  return app;
};

test('every process of the manifest is one the controller takes, and has a count', () => {
  for (const app of manifest) {
    for (const [type, process] of Object.entries(app.processes)) {
      processSchema.parse(process);
      assert.notEqual(app.counts[type], undefined, `${app.name} ${type}`);
    }
  }
});

test('the controller is told the image of each kind of datastore, and makes those of it', () => {
  const { env } = appNamed('controller');
  const { applianceImages } = readSettings(configSchema.parse(env));
  assert.deepEqual(applianceImages, Object.fromEntries(kindNames.map((kind) => [kind, `flynn/${kind}:1`])));
});

test('while the authority is made anew, controllers take members of etcd with certificates of either', () => {
  const alsoTrusted = { certificate: 'ANOTHER', parts: 'ITS PARTS' };
  const caOf = (of: typeof cluster): string | undefined =>
    manifestOf({ ...input, cluster: of }).find(({ name }) => name === 'controller')?.env['FLYNN_ETCD_CA'];
  assert.equal(caOf(cluster), 'CERTIFICATE');
  assert.equal(caOf({ ...cluster, alsoTrusted }), 'CERTIFICATEANOTHER');
});

test('a router is on every host that is not tagged router=no; what people wait for is on none behind NAT, copies of blobs are', () => {
  const asked = manifest.flatMap(({ name, processes }) =>
    Object.entries(processes).flatMap(([type, { constraints = [] }]) =>
      constraints.map((one) => `${name} ${type}: ${one.attribute} ${one.operator} ${one.values?.join() ?? ''}`),
    ),
  );
  assert.deepEqual(asked, [
    'controller web: behind-nat missing ',
    'controller worker: behind-nat missing ',
    'log-aggregator web: behind-nat missing ',
    'git-receiver web: behind-nat missing ',
    'dashboard web: behind-nat missing ',
    'router web: router not_in no',
  ]);
});

test('all processes show their certificates, and say so where a version before does not keep it', () => {
  for (const app of manifest) {
    assert.equal(app.env['FLYNN_MUTUAL_TLS'], 'true', app.name);
    assert.equal(app.env['FLYNN_MUTUAL_ALWAYS'], undefined, app.name);
    for (const { env } of Object.values(app.processes)) assert.equal(env?.['FLYNN_MUTUAL_ALWAYS'], 'true', app.name);
  }
});

test('only the slug builder’s processes do not run all the time', () => {
  const idle = manifest.filter((app) => Object.values(app.counts).includes(0)).map((app) => app.name);
  assert.deepEqual(idle, ['slug-builder']);
});

test('the platform leaves a machine of 2 GB room for a build and an app of half a gigabyte each', () => {
  const hostMemoryBytes = 1.95e9;
  const small = manifestOf({ ...input, hostMemoryBytes }).flatMap((app) =>
    Object.entries(app.processes).map(([type, process]) => (process.memoryBytes ?? 0) * (app.counts[type] ?? 0)),
  );
  const total = small.reduce((sum, bytes) => sum + bytes, 0);
  assert.ok(hostMemoryBytes * 0.9 - total > 900e6, `the platform takes ${total / 1e6} MB`);
});

test('the first controller runs the same processes as the app, as workloads Layer 0 takes', () => {
  const workloads = firstWorkloads(appNamed('controller')).map((workload) => workloadInputSchema.parse(workload));
  assert.deepEqual(
    workloads.map(({ id, template }) => [id, template.command]),
    [
      ['bootstrap-controller-web', ['web']],
      ['bootstrap-controller-worker', ['worker']],
    ],
  );
  for (const { template } of workloads) {
    assert.deepEqual(template.access, ['discovery', 'agents', 'store', 'services']);
  }
});

test('etcd is a resident job that talks to nobody without a certificate', () => {
  const member = {
    cluster: 'flynn',
    hostId: 'h1',
    address: '192.0.2.7',
    image: 'flynn/etcd:1',
    stateDir: '/var/lib/flynn',
  };
  const flagsOf = (more: object) => residentSchema.parse(etcdResident({ ...member, ...more })).template.command ?? [];
  const flags = flagsOf({});
  assert.ok(flags.includes('--client-cert-auth=true') && flags.includes('--peer-client-cert-auth=true'));
  assert.ok(flags.filter((flag) => flag.includes('-urls=')).every((flag) => flag.includes('=https://')));
  assert.ok(flags.includes('--initial-cluster-state=new'));
  const joining = flagsOf({ initialCluster: 'h1=https://192.0.2.7:2380,h2=https://192.0.2.8:2380', memberId: '7' });
  assert.ok(joining.includes('--initial-cluster-state=existing'));
});

const router = appNamed('router');
const release = (change: Partial<Release> = {}): Release => ({
  id: 'r1',
  appId: 'a1',
  version: 1,
  env: { ...router.env },
  processes: Object.fromEntries(
    Object.entries(router.processes).map(([type, process]) => [type, processSchema.parse(process)]),
  ),
  meta: {},
  createdAt: '',
  ...change,
});
const artifact = (name: string) => ({ id: 'i1', type: 'image' as const, image: { name }, meta: {}, createdAt: '' });

test('an app that is as the manifest says is left alone, variables people added included', () => {
  const live = {
    release: release({ env: { ...router.env, FLYNN_LOG_LEVEL: 'debug' } }),
    artifact: artifact(router.image),
  };
  assert.equal(isCurrent(router, live), true);
});

test('another image, variable or process makes a new release', () => {
  assert.equal(isCurrent(router, { release: release(), artifact: artifact('flynn/router:old') }), false);
  assert.equal(isCurrent(router, { release: release({ env: {} }), artifact: artifact(router.image) }), false);
  assert.equal(isCurrent(router, { release: release({ processes: {} }), artifact: artifact(router.image) }), false);
  assert.equal(isCurrent(router, { release: release() }), false);
});

const route = (change: Partial<Route>): Route =>
  routeSchema.parse({ id: 'x', appId: 'a', type: 'http', service: 's', createdAt: '', ...change });

test('a new app’s own route makes way for the one the manifest names', () => {
  const wanted = [{ type: 'http', domain: 'controller.flynn.localhost', service: 'controller' }] as const;
  const own = route({ domain: 'controller.flynn.localhost', service: 'controller-web' });
  assert.deepEqual(routeChanges(wanted, [own], true), { toRemove: [own], toCreate: wanted });
  assert.deepEqual(routeChanges(wanted, [own], false), { toRemove: [own], toCreate: wanted });
});

test('routes people added to the platform’s apps stay', () => {
  const wanted = [{ type: 'http', domain: 'controller.flynn.localhost', service: 'controller' }] as const;
  const right = route({ domain: 'controller.flynn.localhost', service: 'controller' });
  const added = route({ id: 'y', domain: 'api.example.com', service: 'controller' });
  assert.deepEqual(routeChanges(wanted, [right, added], false), { toRemove: [], toCreate: [] });
});

test('git moves to another port when the port changes', () => {
  const wanted = [{ type: 'tcp', port: 2223, service: 'git-receiver' }] as const;
  const former = route({ type: 'tcp', port: 2222, service: 'git-receiver' });
  assert.deepEqual(routeChanges(wanted, [former], false), { toRemove: [former], toCreate: wanted });
});
