import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { teams, users } from './api.ts';
import { type LoginWorld, nonce, startLogin } from './login-fixture.ts';

const ann = { sub: 's1', email: 'ann@example.com', email_verified: true };

async function makeTeams({ world }: LoginWorld): Promise<void> {
  await world.client.call(teams.create, { body: { name: 'admins', role: 'admin' } });
  await world.client.call(teams.create, { body: { name: 'dev' } });
}

test('of whom groups are told no more, they are in none; one group may be written as itself', async () => {
  await using it = await startLogin();
  await makeTeams(it);
  const member = { ...ann, groups: ['admins'] };
  for (const [what, claims, expected] of [
    ['left out', ann, []],
    ['null', { ...ann, groups: null }, []],
    ['a text', { ...ann, groups: 'Dev' }, ['dev']],
  ] as const) {
    it.provider.claims = member;
    const before = await it.comeIn();
    assert.deepEqual([before.role, before.teams], ['admin', ['admins']], what);
    it.provider.claims = claims;
    const after = await it.comeIn();
    assert.deepEqual([after.role, after.teams], ['none', expected], what);
  }
});

test('a provider that told groups of one tells them of all; who leaves out the access token keeps none by it', async () => {
  await using it = await startLogin();
  await makeTeams(it);
  it.provider.claims = { ...ann, sub: 's2', email: 'bob@example.com' };
  await it.comeIn();
  const params = { team: 'admins', user: 'bob@example.com' };
  await it.world.client.call(teams.addMember, { params });
  assert.deepEqual((await it.comeIn()).teams, ['admins'], 'nothing is known of groups yet: an admin put him there');
  const bob = it.provider.claims;
  it.provider.claims = { ...ann, groups: ['dev'] };
  assert.deepEqual((await it.comeIn()).teams, ['dev']);
  it.provider.claims = bob;
  assert.deepEqual((await it.comeIn()).teams, []);
  const { logIn, provider, world } = it;
  await logIn(provider.sign({ nonce, ...ann, groups: undefined }));
  const found = await world.client.call(users.get, { params: { user: 'ann@example.com' } });
  assert.deepEqual(found.teams, []);
});

test('whoever set claim or scope counts on groups from the start; without a claim, teams are nothing of the provider’s', async () => {
  for (const [settings, expected] of [
    [{ scopes: 'openid email groups' }, []],
    [{ groupsClaim: 'roles' }, []],
    [{ groupsClaim: '' }, ['admins']],
  ] as const) {
    await using it = await startLogin(settings);
    await makeTeams(it);
    it.provider.claims = ann;
    await it.comeIn();
    await it.world.client.call(teams.addMember, { params: { team: 'admins', user: 'ann@example.com' } });
    assert.deepEqual((await it.comeIn()).teams, expected, JSON.stringify(settings));
  }
});

test('groups that are told in another place are neither all nor none: who has them is told so', async () => {
  await using it = await startLogin();
  await makeTeams(it);
  const elsewhere = { ...ann, _claim_names: { groups: 'src1' } };
  it.provider.claims = elsewhere;
  assert.deepEqual((await it.comeIn()).teams, [], 'this provider has told none of anybody');
  it.provider.claims = { ...ann, groups: ['dev'] };
  assert.deepEqual((await it.comeIn()).teams, ['dev']);
  it.provider.claims = elsewhere;
  await assert.rejects(it.comeIn(), (error) => hasCode(error, 'denied') && /have it tell fewer/.test(error.message));
});
