/** What a token that is good for less does not come to have by another way, nor a user by what they are called. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { platform } from '../platform/api.ts';
import { keys } from '../keys/api.ts';
import { generic } from '../generic/api.ts';
import { operations } from '../operations/api.ts';
import { keyType } from '../resources.ts';
import { actForHeader } from './act-for.ts';
import { self, tokens, users } from './api.ts';
import { startGateWorld } from './gate-fixture.ts';
import type { GateWorld } from './gate-fixture.ts';
import { userType } from './resources.ts';
import { roles } from './roles.ts';
import { serviceToken } from './service-token.ts';
import { tokenCheck } from './token-findings.ts';

const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl';
const otherKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA/NPHjeqCRIjEJEVsLaMHxvYLpdFyIbpTkPUlMf5c6M';
const kind = { group: 'flynn', version: 'v1', kind: 'Key' };

let place: GateWorld;
/** Tokens that are good for less than their owner, the cluster's admin or the cluster itself, by what they are. */
const narrow = new Map<string, string>();

before(async () => {
  place = await startGateWorld();
  const { world, people, clientOf } = place;
  await using admin = clientOf(people.get('cluster-admin')?.token ?? '');
  for (const [whose, client] of [
    ['an admin', admin],
    ['the cluster', world.client],
  ] as const) {
    for (const role of roles) {
      for (const apps of [undefined, ['shop']]) {
        if (role === 'admin' && apps === undefined) continue;
        const { token } = await client.call(tokens.create, { body: { name: 'ci', role, ...(apps && { apps }) } });
        narrow.set(`${role} of ${whose}${apps === undefined ? '' : ' on shop'}`, token);
      }
    }
  }
});
after(async () => {
  await place?.world[Symbol.asyncDispose]();
});

test('a token that is good for less adds no SSH key, sees none and takes none back: a key pushes with all its owner may', async () => {
  const { world, clientOf, people } = place;
  const signal = AbortSignal.timeout(60_000);
  await using admin = clientOf(people.get('cluster-admin')?.token ?? '');
  const own = await admin.call(keys.create, { body: { publicKey: otherKey } });
  for (const [which, token] of narrow) {
    await using client = clientOf(token);
    const denied = (error: unknown) => hasCode(error, 'denied');
    const asked = client.call(keys.create, { body: { publicKey } });
    await assert.rejects(asked, (error) => denied(error) && /without --scope and --only/.test(String(error)), which);
    await assert.rejects(client.call(generic.apply, { params: kind, body: { spec: { publicKey } } }), denied, which);
    assert.deepEqual(await client.call(keys.list, {}), [], which);
    assert.deepEqual(await client.call(generic.list, { params: kind }), [], which);
    const params = { fingerprint: own.fingerprint };
    await assert.rejects(client.call(keys.remove, { params }), (error) => hasCode(error, 'not_found'), which);
    const ending = new AbortController();
    for await (const { event } of client.events(platform.events, { query: { types: 'key' } }, ending)) {
      assert.equal(event, 'current', `${which} is told of a key`);
      ending.abort();
    }
  }
  assert.equal((await world.deps.resources.list(keyType, { signal })).length, 1);
  await admin.call(keys.remove, { params: { fingerprint: own.fingerprint } });
});

test('a key without a user is the cluster’s, and whoever has the root key adds it; one with a user is theirs', async () => {
  const { world, clientOf, people, knock } = place;
  const receiver = serviceToken(world.userKey, 'git-receiver');
  const key = await world.client.call(keys.create, { body: { publicKey } });
  assert.equal(key.userId, undefined);
  assert.equal(await knock(operations.push, receiver, { headers: { [actForHeader]: key.fingerprint } }), 'in');
  await world.client.call(keys.remove, { params: { fingerprint: key.fingerprint } });
  await using foreign = clientOf(people.get('foreign-developer')?.token ?? '');
  const theirs = await foreign.call(keys.create, { body: { publicKey } });
  const pushed = await knock(operations.push, receiver, { headers: { [actForHeader]: theirs.fingerprint } });
  assert.ok(hasCode(pushed, 'not_found'));
  await foreign.call(keys.remove, { params: { fingerprint: theirs.fingerprint } });
});

test('nobody new is called as whoever acts for the cluster', async () => {
  const { world } = place;
  const params = { ...kind, kind: 'User' };
  for (const name of ['root', 'platform', 'login', 'router', 'git-receiver', 'log-aggregator', 'runner']) {
    const isRefused = (error: unknown) => hasCode(error, 'invalid') && /another name, like/.test(error.message);
    await assert.rejects(world.client.call(users.create, { body: { name } }), isRefused);
    await assert.rejects(world.client.call(generic.apply, { params, body: { name } }), isRefused);
  }
});

test('a token for a user who is called root is theirs, and opens what they may', async () => {
  const { world, clientOf } = place;
  const signal = AbortSignal.timeout(60_000);
  // Of a version before.
  await world.deps.resources.create(userType, { spec: { name: 'root', role: 'viewer' } }, { signal });
  const made = await world.client.call(tokens.create, { body: { name: 'first token', user: 'root' } });
  assert.equal(made.user, 'root');
  await using client = clientOf(made.token);
  const { kind: who, role } = await client.call(self.get, {});
  assert.deepEqual([who, role], ['user', 'viewer']);
  const own = await world.client.call(tokens.create, { body: { name: 'of the cluster' } });
  assert.equal(own.user, undefined);
  const found = await tokenCheck(world.deps).find(signal);
  const told = found.find(({ subject }) => subject === 'user root');
  assert.ok(told?.why.includes(own.id) && !told.why.includes(made.id), told?.why);
});
