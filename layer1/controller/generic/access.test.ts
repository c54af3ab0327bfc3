import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkList, checkWrite, mayRead } from '@flynn/resource/access';
import type { Asking, Role } from '@flynn/resource/access';
import { draftOf } from '@flynn/resource/change';
import type { AnyType } from '@flynn/resource/type';
import { Kinds } from './kind.ts';
import { platformKinds } from './kinds.ts';
import { resourceType } from '../providers/types.ts';
import { tokenType, userType } from '../access/resources.ts';
import { appType, drainType, formationType, keyType, ownedBy, releaseType } from '../resources.ts';

const at = { newId: () => 'x', at: '2030-01-01T00:00:00.000Z' };
const app = draftOf(appType, { id: 'mine', spec: { name: 'mine', meta: {}, isSystem: false, deployTimeoutMs: 1 } }, at);
const release = draftOf(
  releaseType,
  { owner: ownedBy('mine'), spec: { appId: 'mine', version: 1, env: {}, processes: {}, meta: {} } },
  at,
);
const formation = draftOf(
  formationType,
  { owner: ownedBy('mine'), spec: { appId: 'mine', releaseId: 'x', processes: {} } },
  at,
);
const key = draftOf(keyType, { spec: { fingerprint: 'x', publicKey: 'x', comment: '' } }, at);

/** With a role on the app `mine` and none on the cluster. */
function holder(role: Role | undefined): Asking {
  return { name: 'ada', isOperator: false, roleOn: (owner) => (owner?.id === 'mine' ? role : undefined) };
}

const drain = draftOf(
  drainType,
  { owner: ownedBy('mine'), spec: { appId: 'mine', url: 'https://logs.example.com' } },
  at,
);
const clusterDrain = draftOf(drainType, { spec: { url: 'https://logs.example.com' } }, at);
const provided = draftOf(resourceType, { spec: { providerId: 'pg', config: {}, apps: [{ appId: 'mine' }] } }, at);
const shared = draftOf(
  resourceType,
  { spec: { providerId: 'pg', config: {}, apps: [{ appId: 'mine' }, { appId: 'other' }] } },
  at,
);
const user = draftOf(userType, { spec: { name: 'bob' } }, at);
const token = draftOf(tokenType, { spec: { name: 'x', hash: 'x', role: 'viewer', userId: 'bob' } }, at);

const rows: [AnyType, Parameters<typeof mayRead>[2], Role | 'operator', Role | 'operator'][] = [
  [appType, app, 'viewer', 'developer'],
  [releaseType, release, 'viewer', 'developer'],
  [formationType, formation, 'viewer', 'developer'],
  [drainType, drain, 'developer', 'developer'],
  [drainType, clusterDrain, 'operator', 'operator'],
  [keyType, key, 'operator', 'operator'],
  [userType, user, 'operator', 'operator'],
  [tokenType, token, 'operator', 'operator'],
];
const roles: (Role | undefined)[] = [undefined, 'viewer', 'developer', 'admin'];
const rank = (role: string | undefined) => ['viewer', 'developer', 'admin', 'operator'].indexOf(role ?? '');

for (const [type, resource, read, write] of rows) {
  const whose = resource.owner === undefined && type !== appType ? ' of nobody' : '';
  test(`a ${type.name}${whose} is read from ${read} on, and written from ${write} on, of its own app`, () => {
    for (const role of roles) {
      const asking = holder(role);
      assert.equal(mayRead(type, asking, resource), rank(role) >= rank(read), `${role} reads`);
      const write1 = () => checkWrite(type, asking, resource.owner, resource);
      if (rank(role) >= rank(write)) write1();
      else assert.throws(write1, /ada may not change/);
      assert.throws(() => checkWrite(type, asking, ownedBy('other')), /may not change/);
    }
  });
}

test('a resource is seen from viewer on of an app that has it, and changed by developers of all of them', () => {
  for (const role of roles) {
    const asking = holder(role);
    for (const resource of [provided, shared]) {
      assert.equal(mayRead(resourceType, asking, resource), role !== undefined);
    }
    const write = () => checkWrite(resourceType, asking, undefined, provided);
    if (rank(role) >= rank('developer')) write();
    else assert.throws(write, /ada may not change/);
    assert.throws(() => checkWrite(resourceType, asking, undefined, shared), /may not change/);
    assert.throws(() => checkWrite(resourceType, asking, undefined), /may not change/);
  }
});

test('a type without hooks is for operators alone, to list too', () => {
  const { registry } = new Kinds(platformKinds);
  const closed = registry.all().filter(({ authorise }) => authorise === undefined);
  assert.deepEqual(
    closed.map(({ name }) => name),
    ['tombstone', 'provider', 'runner-env', 'certificate', 'acme', 'artifact'],
  );
  for (const type of closed) assert.throws(() => checkList(type, holder('admin')), /may not list/);
});

test('keys and tokens are their own, to see and to take back; users are seen from a role on the cluster on', () => {
  const bob: Asking = { ...holder(undefined), userId: 'bob' };
  assert.ok(mayRead(tokenType, bob, token) && !mayRead(tokenType, { ...bob, userId: 'ada' }, token));
  checkWrite(tokenType, bob, undefined, token);
  assert.throws(() => checkWrite(tokenType, { ...bob, userId: 'ada' }, undefined, token), /may not change/);
  assert.ok(!mayRead(keyType, bob, key), 'one of the cluster itself');
  checkWrite(keyType, bob, undefined);
  assert.throws(() => checkWrite(keyType, bob, undefined, key), /may not change/);
  assert.throws(() => checkList(userType, bob), /may not list/);
  assert.ok(mayRead(userType, { ...bob, roleOn: () => 'viewer' }, user));
});
