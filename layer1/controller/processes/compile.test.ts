import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { buildLimitsOf } from '../builds/limits.ts';
import { compileBuild } from '../builds/compile.ts';
import { compileOneOff, compileWorkload, appIdOf, slugProcess, workloadIdOf } from './compile.ts';
import { checkDefaults } from './check-defaults.ts';
import { plainVolumeName } from '../volumes/names.ts';
import type { Runnable } from './compile.ts';
import { processSchema } from './process.ts';
import type { Process } from './process.ts';

const digest = `sha256:${'a'.repeat(64)}`;
const slug: Runnable['artifact'] = {
  type: 'slug',
  image: { base: 'flynn/slug-runner', layers: [{ digest, sizeBytes: 10 }] },
};
const image: Runnable['artifact'] = { type: 'image', image: { name: 'redis:7' } };
const process = (input: Parameters<typeof processSchema.parse>[0]): Process => processSchema.parse(input);
const runnable = (processes: Record<string, Process>, artifact = slug, env: Record<string, string> = {}): Runnable => ({
  app: { id: 'a1', name: 'shop', isSystem: false, hasOwnVolumes: true },
  release: { id: 'r1', env, processes },
  artifact,
});

test('an omni type may be for so many hosts at most', () => {
  const store = process({ omni: true, maxHosts: 3 });
  const { kind, maxHosts } = compileWorkload(runnable({ store }), 'store', store, 1);
  assert.deepEqual([kind, maxHosts], ['omni', 3]);
});

test('constraints of a type are its workload’s, also of builds; its version does not change with them, and one-off jobs go anywhere', () => {
  const constraints = [{ attribute: 'disk', operator: 'in' as const, values: ['ssd'] }];
  const [web, anywhere] = [process({ constraints }), process({})];
  const compiled = compileWorkload(runnable({ web }), 'web', web, 1);
  assert.deepEqual(compiled.constraints, constraints);
  assert.equal(compiled.version, compileWorkload(runnable({ web: anywhere }), 'web', anywhere, 1).version);
  const build = { app: runnable({}).app, appEnv: {}, operationId: 'o', sourceDigest: digest, commit: 'c' };
  assert.deepEqual(compileBuild(runnable({ build: web }), web, build).constraints, constraints);
  const run = { workloadId: 'a1-run-1', command: ['sh'], env: {}, tty: false, stdin: false };
  assert.deepEqual(compileOneOff(runnable({ web }), run).constraints, []);
});

test('a part of the platform is known by its name when its release can show that, and always if its processes say so; an app never', () => {
  const always = process({ env: { FLYNN_MUTUAL_ALWAYS: 'true' } });
  const can = { FLYNN_MUTUAL_TLS: 'true' };
  const partOf = (web: Process, isSystem: boolean, env: Record<string, string>): Runnable => {
    return { ...runnable({ web }, image, env), app: { id: 's1', name: 'router', isSystem, hasOwnVolumes: !isSystem } };
  };
  const identified = (web: Process, isSystem: boolean, env: Record<string, string>) => {
    const { identity, isAlwaysIdentified } = compileWorkload(partOf(web, isSystem, env), 'web', web, 1).template;
    return [identity, isAlwaysIdentified];
  };
  assert.deepEqual(identified(process({}), true, {}), [undefined, undefined]);
  assert.deepEqual(identified(always, true, {}), [undefined, undefined]);
  assert.deepEqual(identified(process({}), true, can), ['router', undefined]);
  assert.deepEqual(identified(always, true, can), ['router', true]);
  assert.deepEqual(identified(always, false, can), [undefined, undefined]);
  // What an app's environment says outlives the version that put it there.
  const before = { ...can, FLYNN_MUTUAL_ALWAYS: 'true' };
  assert.deepEqual(identified(process({}), true, before), ['router', undefined]);
  const run = { workloadId: 's1-run-1', command: ['sh'], env: {}, tty: false, stdin: false };
  assert.equal(compileOneOff(partOf(always, true, can), run).template.isAlwaysIdentified, true);
  assert.equal(compileOneOff(partOf(process({}), true, can), run).template.isAlwaysIdentified, undefined);
});

test('checks of a release have the time of its app’s deployments and want no error; those of one from before are as they were', () => {
  const http = { type: 'http' as const, path: '/up' };
  const at = (port: number, check?: object) => ({ port, service: { name: `s${port}`, ...(check && { check }) } });
  const types = {
    web: process({ ports: [{ port: 8080 }] }),
    checked: process({ ports: [at(1, http), at(2, { ...http, status: 404 }), at(3, { ...http, statusBelow: 500 })] }),
    named: process({ ports: [at(4)] }),
  };
  const before = runnable(types);
  const since = (deployTimeoutMs: number): Runnable => {
    return { ...before, release: { ...before.release, checks: checkDefaults({ deployTimeoutMs }) } };
  };
  const checksOf = (one: Runnable, type: keyof typeof types) =>
    compileWorkload(one, type, types[type], 1).template.ports.map(({ service }) => service?.check);
  assert.deepEqual(
    checksOf(since(300_000), 'checked').map((check) => [check?.status, check?.statusBelow]),
    [
      [undefined, 400],
      [404, undefined],
      [undefined, 500],
    ],
  );
  assert.equal(checksOf(since(300_000), 'web')[0]?.startTimeoutMs, 240_000);
  assert.equal(checksOf(since(300_000), 'named')[0]?.startTimeoutMs, 240_000);
  assert.equal(checksOf(before, 'checked')[0]?.statusBelow, undefined);
  for (const type of ['web', 'named'] as const) {
    assert.deepEqual(checksOf(since(120_000), type), checksOf(before, type), 'nothing else than before by default');
  }
});

test('a web process of a slug listens on 8080 as APP-web, runs its line as user 5000 in /app, and drains', () => {
  const web = process(slugProcess('node server.js', 'web'));
  const workload = compileWorkload(runnable({ web }), 'web', web, 2);
  assert.equal(workload.id, 'a1-r1-web');
  assert.equal(workload.kind, 'service');
  assert.equal(workload.count, 2);
  assert.equal(workload.update, 'start_first');
  assert.deepEqual(workload.template.command, ['/usr/bin/flynn-run', 'node server.js']);
  assert.equal(workload.template.user, '5000');
  assert.equal(workload.template.workingDirectory, '/app');
  assert.equal(workload.template.env['HOME'], '/app');
  assert.equal(workload.template.ports[0]?.port, 8080);
  assert.equal(workload.template.ports[0]?.service?.name, 'shop-web');
  assert.equal(workload.template.ports[0]?.service?.check?.type, 'tcp');
  assert.equal(workload.template.drainMs, 1_000);
  assert.deepEqual([workload.template.group, workload.template.access, workload.template.links], ['a1', [], []]);
  assert.deepEqual([workload.priority, workload.mayPreempt, workload.singleton], [50, false, false]);
});

test('limits of a type are its jobs’; what it does not say changes no template', () => {
  const limits = { pidsLimit: 100, filesLimit: 512, tempDiskBytes: 2 ** 30 };
  const templateOf = (given: object) => {
    const web = process({ ...slugProcess('node server.js', 'web'), ...given });
    return compileWorkload(runnable({ web }), 'web', web, 1).template;
  };
  const { pidsLimit, filesLimit, tempDiskBytes } = templateOf(limits);
  assert.deepEqual({ pidsLimit, filesLimit, tempDiskBytes }, limits);
  const template = templateOf({});
  assert.deepEqual([template.pidsLimit, template.filesLimit], [2_048, 10_000]);
  assert.ok(!('tempDiskBytes' in template));
  assert.ok(!('restartAfterMs' in (template.ports[0]?.service?.check ?? {})));
});

test('an app is a group of its own; only the platform reaches the platform, and a build what the slug builder needs', () => {
  const web = process(slugProcess('node server.js', 'web'));
  const app = compileWorkload(runnable({ web }), 'web', web, 1).template;
  assert.deepEqual([app.group, app.links, app.access], ['a1', [], []]);
  const system = { ...runnable({ web }), app: { id: 's1', name: 'router', isSystem: true, hasOwnVolumes: false } };
  const all = ['discovery', 'agents', 'store', 'services'];
  assert.deepEqual(compileWorkload(system, 'web', web, 1).template.access, all);
  const run = { workloadId: 'a1-run-1', command: ['sh'], env: {}, tty: false, stdin: false };
  assert.deepEqual(compileOneOff(runnable({ web }), run).template.access, []);
  assert.equal(compileOneOff(runnable({ web }), run).template.group, 'a1');
  const operation = { appEnv: {}, operationId: 'o1', sourceDigest: digest, commit: 'c' };
  const build = compileBuild(system, web, {
    app: { id: 'a1', name: 'shop', isSystem: false, hasOwnVolumes: true },
    ...operation,
  }).template;
  assert.deepEqual([build.group, build.links, build.access], ['a1', ['blobstore'], ['discovery']]);
});

test('the build of a Dockerfile may ask host agents, and knows what each step may take', () => {
  const builder = runnable({ build: process({}) }, image, { FLYNN_BUILD_MEMORY: '300MB' });
  const given = { appEnv: {}, operationId: 'o1', sourceDigest: digest, commit: 'c' };
  const dockerfile = { slugRunnerImage: 'flynn/slug-runner:1' };
  const app = { id: 'a1', name: 'shop', isSystem: false, hasOwnVolumes: true };
  const { template } = compileBuild(builder, process({}), { app, ...given, dockerfile });
  assert.deepEqual(template.access, ['discovery', 'agents']);
  assert.equal(template.env['FLYNN_BUILD_KIND'], 'dockerfile');
  assert.equal(template.env['FLYNN_BUILD_MEMORY'], '307200K');
  assert.equal(template.env['FLYNN_SLUG_RUNNER_IMAGE'], 'flynn/slug-runner:1');
  assert.equal(template.env['FLYNN_SLUG_BUILDER_IMAGE'], 'redis:7');
  assert.equal(template.env['FLYNN_BUILD_DOCKERFILE'], undefined);
  const named = { ...dockerfile, path: 'deploy/web.Dockerfile' };
  const other = compileBuild(builder, process({}), { app, ...given, dockerfile: named }).template;
  assert.equal(other.env['FLYNN_BUILD_DOCKERFILE'], 'deploy/web.Dockerfile');
  const usual = compileBuild(runnable({}, image), process({}), { app, ...given, dockerfile }).template;
  assert.equal(usual.env['FLYNN_BUILD_MEMORY'], '1048576K');
  // What it is given it can read.
  assert.equal(buildLimitsOf(usual.env).FLYNN_BUILD_DISK, 10 * 1024 ** 3);
});

test('a type reaches what it links, a one-off job what any type of its app links', () => {
  const web = process({ links: ['shop-db'] });
  const worker = process({ links: ['queue', 'shop-db'] });
  const release = runnable({ web, worker });
  assert.deepEqual(compileWorkload(release, 'web', web, 1).template.links, ['shop-db']);
  const run = { workloadId: 'a1-run-1', command: ['sh'], env: {}, tty: false, stdin: false };
  assert.deepEqual(compileOneOff(release, run).template.links, ['queue', 'shop-db']);
  assert.notEqual(
    compileWorkload(release, 'web', web, 1).version,
    compileWorkload(release, 'web', process({}), 1).version,
  );
});

test('a worker has no port, no service and nothing to drain', () => {
  const worker = process(slugProcess('node worker.js', 'worker'));
  const { template } = compileWorkload(runnable({ worker }), 'worker', worker, 1);
  assert.deepEqual(template.ports, []);
  assert.equal(template.drainMs, 0);
});

test('a process type’s variables win over the release’s, and neither over what the platform says', () => {
  const web = process({ env: { A: 'process', FLYNN_APP_ID: 'forged' } });
  const { template } = compileWorkload(runnable({ web }, image, { A: 'release', B: 'release' }), 'web', web, 1);
  assert.equal(template.env['A'], 'process');
  assert.equal(template.env['B'], 'release');
  assert.equal(template.env['FLYNN_APP_ID'], 'a1');
  assert.equal(template.env['FLYNN_APP_NAME'], 'shop');
  assert.equal(template.env['FLYNN_RELEASE_ID'], 'r1');
  assert.equal(template.env['FLYNN_PROCESS_TYPE'], 'web');
});

test('a type with a volume is one workload through all releases, stopping first; one on host ports starts beside the old', () => {
  const db = process({ volumes: [{ name: 'data', path: '/data' }] });
  const edge = process({ hostNetwork: true, omni: true, ports: [{ port: 80 }] });
  const release = runnable({ db, edge }, image);
  assert.equal(workloadIdOf('a1', release.release, 'db'), 'a1-db');
  const standing = compileWorkload(release, 'db', db, 1);
  assert.deepEqual([standing.update, standing.singleton], ['stop_first', true]);
  const datastore = runnable({ db }, image, { FLYNN_KEYSPACE_PASSWORD: 'k' });
  const member = compileWorkload({ ...datastore, app: { ...datastore.app, isDatastore: true } }, 'db', db, 1);
  assert.deepEqual([member.update, member.singleton], ['stop_first', false], 'its members agree among themselves');
  const cache = compileWorkload(release, 'db', process({ volumes: [{ name: 'c', path: '/c', isShared: true }] }), 1);
  assert.deepEqual([cache.update, cache.singleton], ['start_first', false], 'two may share a cache');
  const compiled = compileWorkload(release, 'edge', edge, 1);
  assert.deepEqual([compiled.id, compiled.kind, compiled.update], ['a1-r1-edge', 'omni', 'start_first']);
});

test('volumes of two apps, and of two types, are never one by their names; an app from before keeps those it has', () => {
  const db = process({ volumes: [{ name: 'data', path: '/data' }] });
  const { release, artifact, app } = runnable({ db }, image);
  const namesOf = (one: typeof app, type = 'db') => {
    const { id, template } = compileWorkload({ app: one, release, artifact }, type, db, 1);
    return template.volumes.map(({ name, path }) => [name, path, plainVolumeName(appIdOf(id), name)]);
  };
  assert.deepEqual(namesOf(app), [['a1.db.data', '/data', 'data']]);
  assert.deepEqual(namesOf({ ...app, id: 'a2' }), [['a2.db.data', '/data', 'data']]);
  assert.deepEqual(namesOf(app, 'web'), [['a1.web.data', '/data', 'data']]);
  assert.deepEqual(namesOf({ ...app, hasOwnVolumes: false }), [['data', '/data', 'data']]);
  assert.equal(plainVolumeName('a1', 'a1.db.v1.2'), 'v1.2');
});

test('a named service stays as it was given', () => {
  const web = process({ ports: [{ port: 5000, service: { name: 'special' } }] });
  assert.equal(compileWorkload(runnable({ web }, image), 'web', web, 1).template.ports[0]?.service?.name, 'special');
});

test('roles are what they were given, whatever checks have that say nothing; what has none does not say so', () => {
  const roles = [{ name: 'shop-db', check: { type: 'http' as const, port: 8008, path: '/primary' } }];
  const ports = [{ port: 5432, roles }];
  const db = process({ ports });
  const { release, ...rest } = runnable({ db }, image);
  const checks = { statusBelow: 400, startTimeoutMs: 1_000 };
  const { template } = compileWorkload({ ...rest, release: { ...release, checks } }, 'db', db, 1);
  assert.deepEqual(template.ports, [
    {
      port: 5432,
      protocol: 'tcp',
      roles: [
        {
          name: 'shop-db',
          check: { type: 'http', port: 8008, path: '/primary', intervalMs: 2_000, timeoutMs: 2_000, threshold: 2 },
        },
      ],
    },
  ]);
  assert.equal(template.drainMs, 1_000, 'what it answers may be under way when it leaves discovery');
  // Templates of before roles were are the same, to the byte: a key more would replace every job of the cluster.
  const plain = compileWorkload(runnable({ db }, image), 'db', process({ ports: [{ port: 5432 }] }), 1);
  assert.equal(JSON.stringify(plain.template.ports), '[{"port":5432,"protocol":"tcp"}]');
});

test('the version depends on the template only: not on the count, nor on the order of variables', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.stringMatching(/^[A-Z]{1,6}$/), fc.string(), { maxKeys: 6 }),
      fc.nat(9),
      (env, count) => {
        const web = process(slugProcess('x', 'web'));
        const reversed = Object.fromEntries(Object.entries(env).toReversed());
        const one = compileWorkload(runnable({ web }, slug, env), 'web', web, 1);
        assert.equal(one.version, compileWorkload(runnable({ web }, slug, reversed), 'web', web, count).version);
        assert.notEqual(
          one.version,
          compileWorkload(runnable({ web }, slug, { ...env, NEW_ONE: 'x' }), 'web', web, 1).version,
        );
      },
    ),
  );
});

test('a one-off job of a slug goes through the slug’s starter, of an image it is the command itself', () => {
  const oneOff = { workloadId: 'a1-run-x', command: ['rake', 'db:migrate'], env: { X: '1' }, tty: true, stdin: true };
  const ofSlug = compileOneOff(runnable({}), oneOff);
  assert.deepEqual(ofSlug.template.command, ['/usr/bin/flynn-run', 'rake', 'db:migrate']);
  assert.equal(ofSlug.kind, 'ephemeral');
  assert.equal(ofSlug.template.restart, 'never');
  assert.equal(ofSlug.template.env['X'], '1');
  assert.equal(ofSlug.template.env['FLYNN_PROCESS_TYPE'], 'run');
  const ofImage = compileOneOff(runnable({}, image), { ...oneOff, maxRuntimeMs: 5 });
  assert.deepEqual([ofImage.template.entrypoint, ofImage.template.command], [['rake'], ['db:migrate']]);
  assert.equal(ofImage.template.maxRuntimeMs, 5);
});

test('a build runs the builder’s release under the app’s name, with the app’s variables as JSON', () => {
  const build = process({ command: ['/build'], env: { FLYNN_BLOBSTORE_KEY: 'k' }, memoryBytes: 5 });
  const builder: Runnable = {
    app: { id: 'b', name: 'slug-builder', isSystem: true, hasOwnVolumes: false },
    release: { id: 'rb', env: { FLYNN_BUILD_PIDS: '99' }, processes: { build } },
    artifact: image,
  };
  const workload = compileBuild(builder, build, {
    app: { id: 'a1', name: 'shop', isSystem: false, hasOwnVolumes: true },
    appEnv: { SECRET: 's' },
    operationId: 'build-1',
    sourceDigest: digest,
    commit: 'c0ffee',
  });
  assert.equal(workload.id, 'a1-build-build-1');
  assert.equal(workload.template.meta['flynn.app'], 'a1');
  assert.equal(workload.template.meta['flynn.type'], 'build');
  assert.equal(workload.template.env['FLYNN_APP_ENV'], '{"SECRET":"s"}');
  assert.equal(workload.template.env['SECRET'], undefined);
  assert.equal(workload.template.limits?.memoryBytes, 5);
  assert.equal(workload.template.pidsLimit, 99);
  // The app's own code runs in there.
  assert.equal(workload.template.group, 'a1');
  assert.deepEqual([workload.template.access, workload.template.links], [['discovery'], ['blobstore']]);
  assert.deepEqual([workload.priority, workload.mayPreempt], [40, false]);
  // A build that never ends would keep its app from being pushed to for ever.
  assert.equal(workload.template.maxRuntimeMs, 31 * 60_000);
});

test('a quarter of the memory and a tenth of the processor time are set aside; the limits are as the release says', () => {
  const web = process({ memoryBytes: 400, cpuMillis: 1_000 });
  const { template } = compileWorkload(runnable({ web }, image), 'web', web, 1);
  assert.deepEqual(template.resources, { memoryBytes: 100, cpuMillis: 100 });
  assert.deepEqual(template.limits, { memoryBytes: 400, cpuMillis: 1_000 });
});

test('the platform’s own apps reach all of it, and make room for themselves; their one-off jobs do not', () => {
  const web = process(slugProcess('x', 'web'));
  const ofUsers = runnable({ web });
  const system: Runnable = { ...ofUsers, app: { ...ofUsers.app, isSystem: true, hasOwnVolumes: false } };
  const service = compileWorkload(system, 'web', web, 1);
  const once = compileOneOff(system, { workloadId: 'a1-run-x', command: ['sh'], env: {}, tty: false, stdin: false });
  for (const { template, priority } of [service, once]) {
    assert.deepEqual(template.access, ['discovery', 'agents', 'store', 'services']);
    assert.deepEqual([template.group, priority], ['a1', 80]);
  }
  assert.deepEqual([service.mayPreempt, once.mayPreempt], [true, false]);
  const plain = compileOneOff(ofUsers, { workloadId: 'a1-run-y', command: ['sh'], env: {}, tty: false, stdin: false });
  assert.deepEqual([plain.template.access, plain.template.group, plain.priority], [[], 'a1', 50]);
});

test('a workload’s id begins with its app’s', () => {
  const db = process({ volumes: [{ name: 'data', path: '/data' }] });
  const ofTypes = ['db', 'admin-web'].map((type) =>
    workloadIdOf('a1', runnable({ db, 'admin-web': process({}) }).release, type),
  );
  for (const id of [...ofTypes, 'a1-run-x', 'a1-build-o']) assert.equal(appIdOf(id), 'a1');
});
