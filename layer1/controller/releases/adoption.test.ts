import assert from 'node:assert/strict';
import { test } from 'node:test';
import { adoptedRelease } from './adoption.ts';
import { processSchema } from '../processes/process.ts';
import type { Release } from '../model.ts';

const release = (change: Partial<Release>): Release => ({
  id: 'r',
  appId: 'a',
  version: 4,
  artifactId: 'slug',
  env: { SECRET: 'of staging' },
  processes: {},
  meta: { 'git.commit': 'c0ffee', 'flynn.operation': 'o', 'flynn.basis': 'b' },
  createdAt: '',
  ...change,
});
const web = processSchema.parse({
  command: ['new'],
  memoryBytes: 1,
  ports: [
    { port: 8080, service: { name: 'staging-web' } },
    { port: 9, service: { name: 'shared' } },
  ],
});

test('artifact and commands come along, env does not, settings and names are the other app’s', () => {
  const constraints = [{ attribute: 'disk', operator: 'exists' as const, values: [] }];
  const before = release({
    processes: {
      web: processSchema.parse({ command: ['old'], memoryBytes: 2, constraints, volumes: [{ name: 'd', path: '/d' }] }),
    },
  });
  const adopted = adoptedRelease(
    { app: { name: 'staging' }, release: release({ processes: { web, worker: web }, scripts: { release: 'm' } }) },
    { app: { name: 'shop' }, release: before },
  );
  assert.equal(adopted?.artifactId, 'slug');
  assert.deepEqual(adopted?.processes['web']?.command, ['new']);
  assert.deepEqual(adopted?.processes['web']?.volumes, [{ name: 'd', path: '/d' }]);
  assert.equal(adopted?.processes['web']?.memoryBytes, 2);
  assert.deepEqual(adopted?.processes['web']?.constraints, constraints);
  assert.equal(adopted?.processes['worker']?.memoryBytes, 1);
  assert.deepEqual(
    adopted?.processes['web']?.ports.map(({ service }) => service?.name),
    ['shop-web', 'shared'],
  );
  assert.deepEqual(adopted?.scripts, { release: 'm' });
  assert.deepEqual(adopted?.meta, { 'git.commit': 'c0ffee', 'promoted.from': 'staging v4' });
  assert.ok(!('env' in (adopted ?? {})));
});

test('roles follow the app as services do, those that begin with its name and their type included', () => {
  const check = { type: 'tcp' as const };
  const names = ['staging-db-primary', 'staging-db', 'staging-dbs', 'shared'];
  const db = processSchema.parse({ ports: [{ port: 5432, roles: names.map((name) => ({ name, check })) }] });
  const adopted = adoptedRelease(
    { app: { name: 'staging' }, release: release({ processes: { db } }) },
    { app: { name: 'shop' }, release: undefined },
  );
  assert.deepEqual(
    adopted?.processes['db']?.ports[0]?.roles?.map(({ name }) => name),
    ['shop-db-primary', 'shop-db', 'staging-dbs', 'shared'],
  );
});

test('limits are the other app’s, those that it does not say included', () => {
  const limits = { pidsLimit: 100, filesLimit: 512, tempDiskBytes: 2 ** 30 };
  const limitsOf = (staged: object, live: object) => {
    const adopted = adoptedRelease(
      { app: { name: 'staging' }, release: release({ processes: { web: { ...web, ...staged } } }) },
      { app: { name: 'shop' }, release: release({ processes: { web: { ...web, ...live } } }) },
    );
    const { pidsLimit, filesLimit, tempDiskBytes } = adopted?.processes['web'] ?? {};
    return { pidsLimit, filesLimit, tempDiskBytes };
  };
  const none = { pidsLimit: undefined, filesLimit: undefined, tempDiskBytes: undefined };
  assert.deepEqual([limitsOf({}, limits), limitsOf(limits, {})], [limits, none]);
});

test('what is set for a type of the other app alone does not come along', () => {
  const constraints = [{ attribute: 'host', operator: 'in' as const, values: ['k9'] }];
  const staged = { ...web, constraints, drainMs: 5 };
  const adopted = adoptedRelease(
    { app: { name: 'staging' }, release: release({ processes: { web: staged, worker: staged } }) },
    { app: { name: 'shop' }, release: release({ processes: { web } }) },
  );
  const { web: known, worker: fresh } = adopted?.processes ?? {};
  assert.deepEqual([known?.constraints, known?.drainMs], [undefined, undefined]);
  assert.deepEqual([fresh?.constraints, fresh?.drainMs], [constraints, 5], 'a type that is new is as it was there');
});

test('what has nothing to run cannot be adopted', () => {
  const { artifactId: _none, ...bare } = release({});
  assert.equal(
    adoptedRelease({ app: { name: 'a' }, release: bare }, { app: { name: 'b' }, release: undefined }),
    undefined,
  );
});
