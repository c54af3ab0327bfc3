import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { planCreation } from './creation.ts';
import type { Creation, KnownOperation, NewOperation } from './creation.ts';
import type { OperationResource } from '../resources.ts';

type Given = Partial<NewOperation['spec']>;

const fresh = (id: string, spec: Given = {}): NewOperation => ({
  id,
  spec: { appId: 'a', kind: 'build', pushId: 'p', input: {}, ...spec },
});

function known(
  id: string,
  state: OperationResource['status']['state'],
  more: Given & { place?: number; dependents?: string[] } = {},
): KnownOperation {
  const { place = 1, dependents, ...spec } = more;
  const operation: OperationResource = {
    type: 'operation',
    id,
    uid: id,
    revision: 7,
    generation: 1,
    createdAt: '2026-01-01T00:00:00.000Z',
    updatedAt: '2026-01-01T00:00:00.000Z',
    labels: {},
    finalizers: [],
    waitingFor: {},
    conditions: [],
    spec: fresh(id, spec).spec,
    status: { state, output: {}, ...(dependents === undefined ? {} : { dependents }) },
  };
  return { operation, place };
}

function plan(given: NewOperation[], there: KnownOperation[] = []): Creation {
  const byId = new Map(there.map((one) => [one.operation.id, one]));
  return planCreation(
    given,
    (id) => byId.get(id),
    ({ appId, singletonId }) =>
      there.filter(({ operation: { spec } }) => spec.appId === appId && spec.singletonId === singletonId),
  );
}

const isInvalid = (text: RegExp) => (error: unknown) => hasCode(error, 'invalid') && text.test(error.message);

test('operations may depend on each other in whatever order they are given', () => {
  const { fresh: written } = plan([
    fresh('deploy', { dependsOn: ['release'] }),
    fresh('build'),
    fresh('release', { dependsOn: ['build'] }),
  ]);
  assert.deepEqual(
    written.map(({ id, status }) => [id, status.dependents]),
    [
      ['deploy', undefined],
      ['build', ['release']],
      ['release', ['deploy']],
    ],
  );
});

test('a circle is refused and told, the shortest included', () => {
  assert.throws(
    () =>
      plan([
        fresh('o1', { dependsOn: ['o2'] }),
        fresh('o2', { dependsOn: ['o3'] }),
        fresh('o3', { dependsOn: ['o1'] }),
      ]),
    isInvalid(/wait for each other: o1 → o2 → o3 → o1/),
  );
  assert.throws(() => plan([fresh('o1', { dependsOn: ['o1'] })]), isInvalid(/o1 → o1/));
});

test('what depends on something unknown, or on what will never complete, is refused', () => {
  assert.throws(
    () => plan([fresh('o1', { dependsOn: ['nowhere'] })]),
    isInvalid(/depends on nowhere, which there is not/),
  );
  assert.throws(
    () => plan([fresh('o1', { dependsOn: ['old'] })], [known('old', 'failed')]),
    isInvalid(/depends on old, which is failed: it would never run/),
  );
  assert.equal(plan([fresh('o1', { dependsOn: ['old'], mayFail: ['old'] })], [known('old', 'failed')]).fresh.length, 1);
  assert.equal(plan([fresh('o1', { dependsOn: ['old'] })], [known('old', 'complete')]).awaited.length, 0);
  assert.throws(() => plan([fresh('o1', { mayFail: ['x'] })]), isInvalid(/may fail but does not depend on it/));
  assert.throws(() => plan([fresh('o1'), fresh('o1')]), isInvalid(/the same id/));
});

test('one that is awaited comes to know of it', () => {
  const { awaited } = plan(
    [fresh('o1', { dependsOn: ['old'] }), fresh('o2', { dependsOn: ['old'] })],
    [known('old', 'running', { dependents: ['o0'] })],
  );
  assert.deepEqual(awaited[0]?.after.status.dependents, ['o0', 'o1', 'o2']);
  assert.equal(awaited[0]?.before.revision, 7);
});

test('of a singleton the queued one goes and its place is inherited; one that was given away or has ended stays', () => {
  const singleton = { singletonId: 's' };
  const queued = plan([fresh('new', singleton)], [known('old', 'queued', { ...singleton, place: 3 })]);
  assert.deepEqual(
    queued.superseded.map(({ operation, by }) => [operation.id, by]),
    [['old', 'new']],
  );
  assert.equal(queued.fresh[0]?.status.place, 3);
  for (const state of ['waiting', 'running', 'complete', 'failed', 'cancelled'] as const) {
    const { superseded, fresh: written } = plan([fresh('new', singleton)], [known('old', state, singleton)]);
    assert.deepEqual([superseded.length, written[0]?.status.place], [0, undefined], state);
  }
  const other = plan([fresh('new', singleton)], [known('old', 'queued', { ...singleton, appId: 'b' })]);
  assert.equal(other.superseded.length, 0);
  assert.throws(() => plan([fresh('o1', singleton), fresh('o2', singleton)]), isInvalid(/the singleton id "s"/));
  assert.throws(
    () => plan([fresh('new', { ...singleton, dependsOn: ['old'] })], [known('old', 'queued', singleton)]),
    isInvalid(/would take the place of old, which it depends on/),
  );
});

test('no more wait for one than end with it in one transaction, however the chain grew', () => {
  const chain = Array.from({ length: 36 }, (_, index) =>
    known(`o${index}`, 'queued', {
      ...(index === 0 ? {} : { dependsOn: [`o${index - 1}`] }),
      ...(index === 35 ? {} : { dependents: [`o${index + 1}`] }),
    }),
  );
  assert.throws(
    () => plan([fresh('last', { dependsOn: ['o35'] })], chain),
    (error) => hasCode(error, 'exhausted') && /36 operations would wait for o0, 35 may/.test(error.message),
  );
  assert.equal(plan([fresh('last', { dependsOn: ['o32'] })], chain.slice(0, 34)).awaited.length, 1);
});
