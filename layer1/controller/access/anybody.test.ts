/** Routes that the gate opens to all: each is asked for what is there and hidden, and for what is not there. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { Route } from '@flynn/kit/routes';
import type { AnyType } from '@flynn/resource/type';
import { evaluations } from '../hosts/api.ts';
import { addKey } from '../keys/keys.ts';
import { notificationType } from '../notifications/types.ts';
import { providerType, resourceType } from '../providers/types.ts';
import { drainType, ownedBy } from '../resources.ts';
import { nameOf, startGateWorld } from './gate-fixture.ts';
import type { GateWorld } from './gate-fixture.ts';

const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA/NPHjeqCRIjEJEVsLaMHxvYLpdFyIbpTkPUlMf5c6M shop';
const callers = ['nobody', 'foreign-admin', 'admin-as-admin-of-other'];

let place: GateWorld;
/** By what a row calls them: the hidden one, and one that there is not. */
const things = new Map<string, readonly [string, string]>([['app', ['shop', 'no-such-app']]]);

before(async () => {
  place = await startGateWorld();
  const { world, ids } = place;
  const { resources } = world.deps;
  const signal = AbortSignal.timeout(60_000);
  const create = (type: AnyType, id: string, spec: object) =>
    resources.create(type, { id, owner: ownedBy(ids.shop), spec }, { signal });
  await resources.create(providerType, { id: 'pg', spec: { name: 'pg', url: 'https://pg.example.com/' } }, { signal });
  const spec = { providerId: 'pg', config: {}, apps: [{ appId: ids.shop, isReplacing: false }] };
  await resources.create(resourceType, { id: 'hidden-resource', spec }, { signal });
  things.set('resource', ['hidden-resource', 'no-such-resource']);
  await create(drainType, 'hidden-drain', { appId: ids.shop, url: 'https://logs.example.com/' });
  things.set('drain', ['hidden-drain', 'no-such-drain']);
  const secret = `whsec_${Buffer.alloc(32).toString('base64')}`;
  const sent = { url: 'https://hooks.example.com/', format: 'json', on: ['deployment'], severity: 'critical' };
  const told = { name: 'hidden-one', appId: ids.shop, ...sent, everyMinutes: 5, secret };
  await create(notificationType, 'hidden-notification', told);
  things.set('notification', ['hidden-one', 'no-such-one']);
  const { fingerprint } = (await addKey(world.deps, { text: publicKey }, signal)).spec;
  things.set('fingerprint', [encodeURIComponent(fingerprint), encodeURIComponent(`SHA256:${'A'.repeat(43)}`)]);
  const token = place.people.get('shop-developer')?.token.split('_')[1] ?? '';
  things.set('token', [token, 'aaaaaaaaaaaa']);
  const [evaluation] = await waitFor(
    async () => {
      const found = await world.client.call(evaluations.list, { query: { app: 'shop' } });
      return found.length > 0 && found;
    },
    { what: 'an evaluation of shop', deadlineMs: 30_000, intervalMs: 20 },
  );
  things.set('evaluation', [evaluation?.id ?? '', 'no-such-evaluation']);
});
after(async () => {
  await place?.world[Symbol.asyncDispose]();
});

/** What is asked of it, `{app}` being one that is hidden or that there is not; `own`: it is about nothing of somebody else's. */
type Row = { path?: string; body?: object } | 'own';

const appKind = '/api/flynn/v1/App';
const backup = { path: '/resources/{resource}/backups/x' };
const rows: Readonly<Record<string, Row>> = {
  'GET /volumes': { path: '/volumes?app={app}' },
  'GET /apps': 'own',
  'GET /certificates': 'own',
  'GET /resources': 'own',
  'GET /resources/:resource': {},
  'DELETE /resources/:resource': {},
  'GET /resources/:resource/backups': {},
  'POST /resources/:resource/backups': { body: {} },
  'POST /resources/:resource/backups/:backup/download': { path: `${backup.path}/download`, body: {} },
  'DELETE /resources/:resource/backups/:backup': backup,
  'POST /resources/:resource/backups/:backup/cancel': { path: `${backup.path}/cancel`, body: {} },
  'PUT /resources/:resource/backup-schedule': { body: { schedule: '0 3 * * *' } },
  'DELETE /resources/:resource/backup-schedule': {},
  'GET /resources/:resource/history': {},
  'PUT /resources/:resource/history': { body: { days: 1 } },
  'POST /resources/:resource/history/collect': { body: {} },
  'POST /resources/:resource/restore': { body: { backup: 'x' } },
  'POST /resources/:resource/restore/cancel': { body: {} },
  'DELETE /resources/:resource/restore': {},
  'GET /keys': 'own',
  'POST /keys': 'own',
  'DELETE /keys/:fingerprint': {},
  'GET /audit': { path: '/audit?app={app}' },
  'POST /tokens': { body: { name: 'x', apps: ['{app}'] } },
  'POST /tokens/exchange': 'own',
  'GET /tokens': 'own',
  'DELETE /tokens/:token': {},
  'GET /whoami': 'own',
  'GET /figures': { path: '/figures?app={app}' },
  'GET /notifications': { path: '/notifications?app={app}' },
  'POST /notifications': { body: { name: 'mine', app: '{app}', url: 'https://hooks.example.com/' } },
  'POST /notifications/:notification/test': { body: {} },
  'GET /notifications/:notification/deliveries': {},
  'DELETE /notifications/:notification': {},
  'GET /drains': { path: '/drains?app={app}' },
  'POST /drains': { body: { app: '{app}', url: 'https://logs.example.com/' } },
  'DELETE /drains/:drain': {},
  'GET /evaluations': { path: '/evaluations?app={app}' },
  'GET /evaluations/:evaluation': {},
  'GET /events': { path: '/events?app={app}' },
  'GET /cluster': 'own',
  'GET /dashboard': 'own',
  // Each kind is asked for what is somebody else's in generic/foreign.test.ts.
  'GET /api': 'own',
  'GET /api/:group/:version/:kind': { path: `${appKind}?owner=app/{app}` },
  'GET /watch/:group/:version/:kind': { path: '/watch/flynn/v1/App?owner=app/{app}' },
  'GET /api/:group/:version/:kind/:name': { path: `${appKind}/{app}` },
  'POST /api/:group/:version/:kind': { path: appKind, body: { name: '{app}' } },
  'PUT /api/:group/:version/:kind/:name': { path: `${appKind}/{app}`, body: {} },
  'PATCH /api/:group/:version/:kind/:name': { path: `${appKind}/{app}`, body: {} },
  'DELETE /api/:group/:version/:kind/:name': { path: `${appKind}/{app}` },
};

function routesOpenToAll(): Route[] {
  return place.all.filter(({ access }) => access === 'anybody');
}

/** What is said, with the name that was asked for taken out. */
async function answerOf(route: Route, row: Exclude<Row, 'own'>, token: string, which: 0 | 1): Promise<string> {
  const fill = (text: string) =>
    text.replaceAll(/\{(\w+)\}/g, (_all, name: string) => things.get(name)?.[which] ?? assert.fail(`no ${name}`));
  const path = fill(row.path ?? route.path.replaceAll(/:(\w+)/g, '{$1}'));
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const body = row.body === undefined ? {} : { body: fill(JSON.stringify(row.body)) };
  const signal = AbortSignal.timeout(60_000);
  const answer = await fetch(`${place.world.url}${path}`, { method: route.method, headers, ...body, signal });
  const text = await answer.text();
  const named = [...things.values()].flatMap((pair) => [pair[which], decodeURIComponent(pair[which])]);
  return named.reduce((all, name) => all.replaceAll(name, '…'), `${answer.status} ${text}`);
}

test('each route that is open to all has a row', () => {
  assert.deepEqual(Object.keys(rows).toSorted(), routesOpenToAll().map(nameOf).toSorted());
});

test('of what somebody may not see no route says anything else than of what is not there', async () => {
  for (const route of routesOpenToAll()) {
    const row = rows[nameOf(route)] ?? assert.fail(nameOf(route));
    if (row === 'own') continue;
    for (const caller of callers) {
      const token = place.people.get(caller)?.token ?? '';
      const hidden = await answerOf(route, row, token, 0);
      const missing = await answerOf(route, row, token, 1);
      assert.equal(hidden, missing, `${caller} at ${nameOf(route)}`);
      assert.match(hidden, nameOf(route) === 'GET /audit' ? /^200 \[\]$/ : /^4\d\d /, `${caller} at ${nameOf(route)}`);
    }
    // Who may see it is told of it: the row asks for what is there.
    if (route.method !== 'GET' || route.response === 'events') continue;
    assert.doesNotMatch(await answerOf(route, row, place.world.userKey, 0), /^404/, nameOf(route));
  }
});

test('lists that are open to all have nothing of what somebody may not see', async () => {
  const { ids } = place;
  const secrets = [ids.shop, ids.deployment, 'hidden-', '"shop"', 'shop.flynn'];
  for (const route of routesOpenToAll()) {
    if (rows[nameOf(route)] !== 'own' || route.method !== 'GET') continue;
    for (const caller of callers) {
      const token = place.people.get(caller)?.token ?? '';
      const told = await answerOf(route, {}, token, 0);
      for (const secret of secrets) assert.ok(!told.includes(secret), `${caller} reads ${secret} at ${nameOf(route)}`);
    }
  }
});
