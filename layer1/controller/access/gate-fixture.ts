/**
 * Everybody the gate may meet: people with every role, on the cluster, on an app and through a team, with narrowed tokens; and
 * the refused.
 */
import { FlynnError } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import type { Route } from '@flynn/kit/routes';
import { waitFor } from '@flynn/kit/retry';
import { apps } from '../api.ts';
import { operations } from '../operations/api.ts';
import { createControllerClient } from '../client.ts';
import { startTestController } from '../testing.ts';
import { grants, teams, tokens, users } from './api.ts';
import type { Level } from './roles.ts';
import { serviceToken } from './service-token.ts';

const ranks: Readonly<Record<Level, number>> = { none: 0, viewer: 1, developer: 2, admin: 3 };

export type Person = { token: string; cluster: Level; shop: Level; most: Level };

export type GateWorld = Awaited<ReturnType<typeof startGateWorld>>;

/** To be disposed of with its `world`. */
export async function startGateWorld() {
  const world = await startTestController();
  const people = new Map<string, Person>();
  const refused = new Map<string, string>();
  async function person(
    name: string,
    body: { role?: 'viewer' | 'developer' | 'admin' },
    levels: Omit<Person, 'token'>,
  ): Promise<void> {
    await world.client.call(users.create, { body: { name, ...body } });
    const { token } = await world.client.call(tokens.create, { body: { name: 'test', user: name } });
    people.set(name, { token, ...levels });
  }

  /** A token that is good for less than who has it, made with the one that is good for all. */
  async function narrow(
    name: string,
    body: { role: 'viewer' | 'developer' | 'admin'; apps?: string[] },
    levels: Omit<Person, 'token'>,
  ): Promise<void> {
    const admin = people.get('cluster-admin');
    const made = await world.client.call(tokens.create, {
      body: { name, ...body, ...(admin === undefined ? {} : { user: 'cluster-admin' }) },
    });
    people.set(name, { token: made.token, ...levels });
  }

  async function grant(app: string, kind: string, name: string, role: 'viewer' | 'developer' | 'admin'): Promise<void> {
    await world.client.call(grants.put, { params: { app, kind, name }, body: { role } });
  }

  function clientOf(token: string): HttpClient {
    return createControllerClient({ baseUrl: world.url, key: token });
  }

  async function knock(
    route: Route,
    token: string | undefined,
    more: { app?: string; headers?: Record<string, string>; peer?: string } = {},
  ): Promise<'in' | FlynnError> {
    const own: Record<string, string> = {
      app: more.app ?? 'shop',
      deployment: ids.deployment,
      operation: ids.operation,
    };
    const params = Object.fromEntries(route.params.map((name) => [name, own[name] ?? 'x']));
    const headers = { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...more.headers };
    const peer = more.peer === undefined ? {} : { peer: more.peer };
    const signal = AbortSignal.timeout(60_000);
    const request = { route, params, headers, remoteAddress: '', ...peer, requestId: 'r', signal };
    try {
      await world.web.gate(request);
      return 'in';
    } catch (error) {
      if (error instanceof FlynnError) return error;
      throw error;
    }
  }

  const { client } = world;
  const { app: shop, deployment } = await world.deployApp('shop', { web: {} });
  const other = await client.call(apps.create, { body: { name: 'other' } });
  await client.call(apps.create, { body: { name: 'router', isSystem: true } });
  const body = { pushId: 'p1', sourceDigest: 'sha256:x', commit: 'c', branch: 'main' };
  const [operation] = await client.call(operations.push, { params: { app: 'shop' }, body });
  const ids = { shop: shop.id, other: other.id, deployment: deployment.id, operation: operation?.id ?? '' };
  const all = world.web.handlers.map(({ route }) => route);
  const routes = all.filter(({ access }) => access !== 'open');

  const levels = { viewer: 'viewer', developer: 'developer', admin: 'admin' } as const;
  await person('nobody', {}, { cluster: 'none', shop: 'none', most: 'none' });
  for (const role of Object.values(levels)) {
    await person(`cluster-${role}`, { role }, { cluster: role, shop: role, most: role });
    await person(`shop-${role}`, {}, { cluster: 'none', shop: role, most: role });
    await grant('shop', 'user', `shop-${role}`, role);
    await person(`foreign-${role}`, {}, { cluster: 'none', shop: 'none', most: role });
    await grant('other', 'user', `foreign-${role}`, role);
    await client.call(teams.create, { body: { name: role } });
    await person(`team-${role}`, {}, { cluster: 'none', shop: role, most: role });
    await client.call(teams.addMember, { params: { team: role, user: `team-${role}` } });
    await grant('shop', 'team', role, role);
    await narrow(`admin-as-${role}`, { role }, { cluster: role, shop: role, most: role });
    await narrow(`admin-as-${role}-of-other`, { role, apps: ['other'] }, { cluster: 'none', shop: 'none', most: role });
    await narrow(`admin-as-${role}-of-shop`, { role, apps: ['shop'] }, { cluster: 'none', shop: role, most: role });
  }
  await person(
    'viewer-and-shop-developer',
    { role: 'viewer' },
    { cluster: 'viewer', shop: 'developer', most: 'developer' },
  );
  await grant('shop', 'user', 'viewer-and-shop-developer', 'developer');
  people.set('root', { token: world.userKey, cluster: 'admin', shop: 'admin', most: 'admin' });

  const gone = await client.call(tokens.create, { body: { name: 'gone' } });
  await client.call(tokens.revoke, { params: { token: gone.id } });
  refused.set('a revoked token', gone.token);
  const brief = await client.call(tokens.create, { body: { name: 'brief', expiresInMs: 1_000 } });
  await waitFor(() => Date.now() > Date.parse(brief.expiresAt ?? ''), {
    what: 'its end',
    deadlineMs: 30_000,
    intervalMs: 50,
  });
  refused.set('an expired token', brief.token);
  await client.call(users.create, { body: { name: 'left' } });
  const left = await client.call(tokens.create, { body: { name: 'of one who left', user: 'left' } });
  await client.call(users.remove, { params: { user: 'left' } });
  refused.set('the token of a user who is gone', left.token);
  const real = people.get('cluster-admin')?.token ?? '';
  refused.set('a good id with another secret', real.slice(0, -3) + (real.endsWith('AAA') ? 'BBB' : 'AAA'));
  refused.set('a token of nobody', `flynn_aaaaaaaaaaaa_${'A'.repeat(43)}`);
  refused.set('something else', 'x');
  refused.set('a service token of another cluster', serviceToken('another root key', 'runner'));
  return { world, all, routes, ids, people, refused, grant, clientOf, knock };
}

export const nameOf = (route: Route): string => `${route.method} ${route.path}`;

export function isAllowed(rule: string, { cluster, shop, most }: Omit<Person, 'token'>): boolean {
  if (rule === 'anybody') return true;
  const [of = '', role = ''] = rule.split(' ');
  if (rule === 'developer of some app') return ranks[most] >= ranks.developer;
  const needed = ranks[role === '' ? 'admin' : (role as Level)];
  return ranks[of === 'app' ? shop : cluster] >= needed;
}
