import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobTemplateSchema } from '@flynn/scheduler/job-template';
import type { Container } from '../engine/engine.ts';
import { jobLabels } from '../engine/labels.ts';
import { type Endpoint, type LocalJob, type Reach, localJobsOf, policiesOf } from './policy.ts';

const endpoints: Endpoint[] = [
  { service: 'shop-web', group: 'shop', address: '100.100.2.2', port: 80 },
  { service: 'shop-web-again', group: 'shop', address: '100.100.2.2', port: 80 },
  { service: 'db', group: 'db', address: '100.100.1.9', port: 5432 },
  { service: 'shop-web', address: '100.100.9.9', port: 22 },
];
const reach = (more: Partial<Reach>): Reach => ({ group: 'shop', links: [], access: [], ...more });
const policyOf = (one: Reach | undefined) => policiesOf([{ address: '100.100.1.2', reach: one }], endpoints)[0];

test('a job reaches what its group announces, once however many names it has', () => {
  assert.deepEqual(policyOf(reach({})), {
    sources: ['100.100.1.2'],
    endpoints: ['100.100.2.2 . 80'],
    access: [],
    isOpen: false,
  });
});

test('a link adds the announced ports of that service', () => {
  assert.deepEqual(policyOf(reach({ links: ['db', 'unknown'] }))?.endpoints, [
    '100.100.1.9 . 5432',
    '100.100.2.2 . 80',
  ]);
});

test('an instance without a group opens nothing, whatever its service and address', () => {
  assert.deepEqual(policyOf(reach({ group: 'other', links: ['shop-web'] }))?.endpoints, ['100.100.2.2 . 80']);
  assert.deepEqual(policyOf(reach({ group: 'undefined' }))?.endpoints, []);
});

test('jobs of equal reach share a policy, in whatever order their links stand', () => {
  const jobs: LocalJob[] = [
    { address: '100.100.1.3', reach: reach({ links: ['a', 'b'], access: ['store', 'agents'] }) },
    { address: '100.100.1.2', reach: reach({ links: ['b', 'a'], access: ['agents', 'store'] }) },
    { address: '100.100.1.4', reach: reach({}) },
  ];
  assert.deepEqual(
    policiesOf(jobs, []).map(({ sources, access }) => ({ sources, access })),
    [
      { sources: ['100.100.1.2', '100.100.1.3'], access: ['agents', 'store'] },
      { sources: ['100.100.1.4'], access: [] },
    ],
  );
  assert.deepEqual(policiesOf(jobs, endpoints), policiesOf(jobs.toReversed(), endpoints.toReversed()));
});

test('a container without the labels was made before there were any, and stays open', () => {
  assert.equal(policyOf(undefined)?.isOpen, true);
  assert.deepEqual(policyOf(undefined)?.endpoints, []);
});

test("a job's template reaches its policy through the labels of its container; meta has no say", () => {
  const template = {
    group: 'shop',
    links: ['db', 'cache'],
    access: ['discovery' as const],
    meta: { 'flynn.group': 'db', 'flynn.system': 'true', 'flynn.access': 'store' },
    volumes: [],
  };
  const container = (labels: Record<string, string>, more: Partial<Container>): Container => ({
    id: 'c',
    name: 'c',
    labels,
    state: 'running',
    address: '100.100.1.2',
    imageId: 'i',
    tty: false,
    volumes: [],
    createdAtMs: 0,
    isOutOfMemory: false,
    ...more,
  });
  const labels = jobLabels(jobOf(template));
  const [job] = localJobsOf([container(labels, {}), container(labels, { state: 'exited' })]);
  assert.deepEqual(job?.reach, { group: 'shop', links: ['db', 'cache'], access: ['discovery'] });
  const keyspace = { name: 'shop-db', keyDigest: `sha256:${'0'.repeat(64)}` };
  const [keeper] = localJobsOf([container(jobLabels(jobOf({ ...template, keyspace })), {})]);
  assert.deepEqual(keeper?.reach?.access, ['discovery', 'keyspace']);
  assert.deepEqual(localJobsOf([container({ ...labels, 'flynn.access': 'keyspace' }, {})])[0]?.reach?.access, []);
  const { group: _, ...bare } = template;
  const [own] = localJobsOf([container(jobLabels(jobOf({ ...bare, links: [], access: [] })), {})]);
  assert.deepEqual(own?.reach, { group: 'w1', links: [], access: [] });
  assert.equal(localJobsOf([container({}, {})])[0]?.reach, undefined);
});

function jobOf(template: object): Parameters<typeof jobLabels>[0] {
  const image = { image: { name: 'x' }, resources: { memoryBytes: 1, cpuMillis: 0 } };
  return {
    id: 'h1-1',
    workloadId: 'w1',
    singleton: false,
    version: 'v1',
    template: jobTemplateSchema.parse({ ...image, ...template }),
  };
}
