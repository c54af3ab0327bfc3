import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HealthEvent } from '../health/api.ts';
import { isWanted } from './message.ts';
import type { Message, Wish } from './message.ts';
import { firstState, plan } from './watching.ts';
import type { EndedDeployment, EndedUpdate, Seen, WatchState } from './watching.ts';

const minuteMs = 60_000;
type Open = Omit<HealthEvent, 'what'>;

function open(check: string, severity: Open['severity'], more: Partial<Open> = {}): Open {
  return { check, severity, subject: 'host h1', at: '', text: 'it is so', remedy: 'do this', ...more };
}
const away = open('hosts', 'critical', { isAway: true });

/** Looks again and again, each time so many minutes later; what is told is returned. */
function watcher() {
  let now = Date.parse('2026-06-01T12:00:00Z');
  let state: WatchState = firstState({ update: undefined }, now);
  const look = (
    minutes: number,
    findings: readonly Open[],
    more: Partial<Seen> & { lookedMs?: number; room?: number } = {},
  ): Message[] => {
    now += minutes * minuteMs;
    const { lookedMs = now, room = 50, ...rest } = more;
    const seen: Seen = { health: { lookedMs, open: findings }, deployments: [], update: undefined, ...rest };
    const planned = plan(state, seen, now, room);
    assert.deepEqual(plan(state, seen, now, room), planned, 'who plans the same again makes the same messages');
    state = { ...planned, outbox: [] };
    return planned.outbox.map(({ message }) => message);
  };
  const types = (...args: Parameters<typeof look>) => look(...args).map(({ type }) => type);
  return { look, types, now: () => now, state: () => state };
}

test('a finding is told once it has lasted a minute, each day while it lasts, and when it has been over for five', () => {
  const { look, types } = watcher();
  assert.deepEqual(types(0, [open('disks', 'critical')]), []);
  const [began] = look(1, [open('disks', 'critical', { text: 'it is 97 % full' })]);
  assert.deepEqual(
    [began?.type, began?.severity, began?.subject, began?.title, began?.todo, began?.since],
    [
      'finding.began',
      'critical',
      { kind: 'host', name: 'h1' },
      'host h1: it is 97 % full',
      'do this',
      '2026-06-01T12:00:00.000Z',
    ],
  );
  assert.deepEqual(types(23 * 60, [open('disks', 'critical')]), []);
  assert.deepEqual(types(60, [open('disks', 'critical')]), ['finding.lasts']);
  assert.deepEqual(types(24 * 60, [open('disks', 'critical')]), ['finding.lasts']);
  assert.deepEqual(types(1, []), []);
  assert.deepEqual(types(4, []), []);
  const [ended] = look(1, []);
  assert.deepEqual([ended?.type, ended?.about], ['finding.ended', began?.about]);
  assert.deepEqual(types(60, []), []);
});

test('what flaps is told once, and what only passes is not told at all', () => {
  const { types } = watcher();
  const told = [];
  for (let count = 0; count < 40; count += 1) told.push(...types(1, count % 2 === 0 ? [away] : []));
  assert.deepEqual(told, ['host.lost']);
  assert.deepEqual(types(6, []), ['host.back']);
  assert.deepEqual([types(1, [away]), types(0.5, []), types(6, [])].flat(), [], 'a host that was started anew');
});

test('of a thing that grows worse is told again, and its end once it is over altogether', () => {
  const { look, types } = watcher();
  types(0, [open('disks', 'warning')]);
  assert.deepEqual(types(1, [open('disks', 'warning')]), ['finding.began']);
  const [worse] = look(1, [open('disks', 'warning'), open('disks', 'critical')]);
  assert.deepEqual([worse?.type, worse?.severity], ['finding.began', 'critical']);
  assert.deepEqual(types(30, [open('disks', 'warning')]), []);
  types(1, []);
  assert.equal(look(5, [])[0]?.severity, 'critical', 'who heard of the worst hears of its end');
});

test('no more is told at once than there is room for: the gravest first, the rest at the next look', () => {
  const { look, types, now } = watcher();
  const many = [
    ...Array.from({ length: 4 }, (_, at) => open('drift', 'warning', { subject: `host w${at}` })),
    open('disks', 'critical'),
  ];
  types(0, many);
  const app = { id: 'a1', name: 'shop' };
  const deployments = ['d1', 'd2'].map((id) => {
    return { id, app, version: 1, hasFailed: false, endedAt: new Date(now()).toISOString() };
  });
  const looks = [2, 0, 2, 2, 2].map((room) => look(1, many, { room, deployments }).map(({ subject }) => subject.name));
  assert.deepEqual(looks, [['h1', 'w0'], [], ['w1', 'w2'], ['w3', 'shop'], ['shop']]);
});

test('what a host has that is away did not end because nobody sees it', () => {
  const { types } = watcher();
  const full = open('disks', 'critical');
  types(0, [full]);
  assert.deepEqual(types(1, [full]), ['finding.began']);
  types(1, [away]);
  assert.deepEqual(types(10, [away]), ['host.lost']);
  assert.deepEqual(types(20, [away]), []);
  assert.deepEqual(types(1, []), [], 'it has yet to be seen again');
  assert.deepEqual(types(2, [full]), []);
  assert.deepEqual(types(4, [full]), ['host.back']);
  types(1, []);
  assert.deepEqual(types(5, []), ['finding.ended']);
});

test('that a host is back is told although the same check finds something else on it', () => {
  const { types } = watcher();
  const skew = open('hosts', 'warning', { text: 'its clock is a minute off' });
  types(0, [away]);
  assert.deepEqual(types(1, [away]), ['host.lost']);
  types(1, [skew]);
  assert.deepEqual(types(5, [skew]), ['host.back', 'finding.began']);
  types(1, []);
  assert.deepEqual(types(5, []), ['finding.ended']);
});

test('each matter of one subject is told, also beside one that is graver', () => {
  const { look, types } = watcher();
  const of = (matter: string, severity: Open['severity']) =>
    open('blobs', severity, { matter, text: `it is ${matter}` });
  const [replaced, damaged] = [of('replaced', 'warning'), of('damaged', 'critical')];
  types(0, [replaced]);
  assert.deepEqual(types(1, [replaced]), ['finding.began']);
  types(1, [replaced, damaged]);
  assert.deepEqual(
    look(1, [replaced, damaged]).map(({ title }) => title),
    ['host h1: it is damaged'],
  );
  types(1, [damaged]);
  assert.deepEqual(
    look(5, [damaged]).map(({ title, text }) => [title, text]),
    [['over: host h1', 'this is no longer so: it is replaced']],
  );
});

test('what a version before wrote down under another key is the same still', () => {
  const { look, types, state, now } = watcher();
  types(0, [away]);
  types(1, [away]);
  const renamed = Object.fromEntries(Object.values(state().alerts).map((alert) => ['hosts host h1', alert]));
  const seen = { health: { lookedMs: now(), open: [away] }, deployments: [], update: undefined };
  assert.deepEqual(plan({ ...state(), alerts: renamed }, seen, now(), 50).outbox, []);
  assert.deepEqual(look(1, [away]), []);
});

test('what a version before wrote down without its matter is the same still, also where it grows worse', () => {
  const { look, types, state, now } = watcher();
  const room = (severity: Open['severity'], percent: number): Open =>
    open('disks', severity, { matter: 'room /', text: `it is ${percent} % full` });
  const { matter: _matter, ...before } = room('warning', 90);
  types(0, [before]);
  assert.deepEqual(types(1, [before]), ['finding.began']);
  assert.deepEqual(types(1, [room('warning', 90)]), []);
  const worse = [...Array(8)].flatMap(() => look(1, [room('critical', 97)]));
  assert.deepEqual(
    worse.map(({ type, title }) => [type, title]),
    [['finding.began', 'host h1: it is 97 % full']],
  );
  // As a worker of the version before leaves it.
  const stripped = Object.values(state().alerts).map(({ matter: _gone, ...alert }) => ['disks host h1', alert]);
  const left: WatchState = { ...state(), alerts: Object.fromEntries(stripped) };
  const seen = { health: { lookedMs: now(), open: [room('critical', 97)] }, deployments: [], update: undefined };
  const planned = plan(left, seen, now(), 50);
  assert.deepEqual(planned.outbox, []);
  assert.deepEqual(Object.keys(planned.alerts), ['disks (room /) host h1']);
  assert.deepEqual(
    [...Array(8)].flatMap(() => types(1, [{ ...before, severity: 'critical' }])),
    [],
  );
});

test('each sort of finding has a name of its own, and names its app', () => {
  const { look, types } = watcher();
  const all = [
    away,
    open('backups', 'critical', { subject: 'backups' }),
    open('databases', 'critical', { subject: 'database shop-db' }),
    open('certificates', 'warning', { subject: 'certificate shop.example.com' }),
    open('drift', 'warning', { app: 'shop' }),
    open('work', 'warning', { subject: 'app blog (web)' }),
    open('hosts', 'critical', { subject: 'host h2', text: 'its clock is a minute off' }),
    open('operations', 'warning', { subject: 'app blog' }),
  ];
  types(0, all);
  const told = look(1, all).map(({ type, subject, app }) => `${type} ${subject.kind} ${subject.name} ${app ?? '-'}`);
  assert.deepEqual(told, [
    'host.lost host h1 -',
    'backup.failed component backups -',
    'backup.failed database shop-db shop-db',
    'finding.began host h2 -',
    'certificate.failed certificate shop.example.com -',
    'app.failing app shop shop',
    'app.failing app blog blog',
    'finding.began app blog blog',
  ]);
  types(1, []);
  assert.deepEqual(types(5, []), [
    'host.back',
    'backup.recovered',
    'backup.recovered',
    'finding.ended',
    'certificate.recovered',
    'app.recovered',
    'app.recovered',
    'finding.ended',
  ]);
});

test('a look of a clock that is ahead counts from when it was heard of: that nobody looks any more is told in time', () => {
  const { look, types, now } = watcher();
  const full = open('disks', 'critical');
  const hourMs = 60 * minuteMs;
  types(0, [full], { lookedMs: now() + hourMs });
  for (let minutes = 0; minutes < 10; minutes += 1) {
    const told = types(1, [full], { lookedMs: now() + hourMs });
    assert.deepEqual(told, minutes === 0 ? ['finding.began'] : []);
  }
  const lookedMs = now() + hourMs - minuteMs;
  const heard = new Date(now()).toISOString();
  assert.deepEqual([types(4, [], { lookedMs }), types(1, [], { lookedMs })].flat(), []);
  const [blind] = look(1, [], { lookedMs });
  assert.equal(blind?.title, `the controller: nobody looks how the cluster is: the last look was at ${heard}`);
});

test('a look of a clock that is behind counts as long as it is heard of anew: nothing is told for nothing, and alarms end', () => {
  const { look, types, now } = watcher();
  const full = open('disks', 'critical');
  const lookBehind = (findings: readonly Open[]) => types(0.5, findings, { lookedMs: now() - 6 * minuteMs });
  const told = [...Array(10)].flatMap(() => lookBehind([full]));
  assert.deepEqual(told, ['finding.began']);
  assert.deepEqual(
    [...Array(20)].flatMap(() => lookBehind([])),
    ['finding.ended'],
  );
  const lookedMs = now() - 6 * minuteMs;
  const heard = new Date(now() + minuteMs).toISOString();
  assert.deepEqual([types(1, [], { lookedMs }), types(4.5, [], { lookedMs }), types(0.5, [], { lookedMs })].flat(), []);
  const [blind] = look(1, [], { lookedMs });
  assert.equal(blind?.title, `the controller: nobody looks how the cluster is: the last look was at ${heard}`);
});

test('while nobody looks nothing has ended, and that nobody looks is told', () => {
  const { look, types, now } = watcher();
  types(0, [away]);
  assert.deepEqual(types(1, [away]), ['host.lost']);
  const lookedMs = now();
  assert.deepEqual(types(6, [], { lookedMs }), []);
  const [blind] = look(1, [], { lookedMs });
  assert.match(blind?.title ?? '', /^the controller: nobody looks how the cluster is: the last look was at /);
  assert.deepEqual(types(1, [away]), []);
  assert.deepEqual(types(5, [away]), ['finding.ended']);
});

test('a deployment is told when it ends, once, also of one that is heard of late; what ended before is not', () => {
  const { look, types, now } = watcher();
  const app = { id: 'a1', name: 'shop' };
  const ended = (id: string, endedMs: number, hasFailed = false): EndedDeployment => {
    const error = hasFailed ? { error: 'a job crashed' } : {};
    return { id, app, version: 7, hasFailed, ...error, endedAt: new Date(endedMs).toISOString() };
  };
  const before = ended('d0', now() - minuteMs);
  const first = ended('d1', now() + minuteMs, true);
  const [failed] = look(2, [], { deployments: [before, first] });
  assert.deepEqual(
    [failed?.type, failed?.app, failed?.title, failed?.text],
    ['deployment.failed', 'shop', 'shop: v7 could not be deployed', 'the deployment of v7 failed: a job crashed'],
  );
  const next = ended('d2', now() + 30 * minuteMs);
  assert.deepEqual(types(31, [], { deployments: [before, first, next] }), ['deployment.succeeded']);
  const late = ended('d3', now() - 5 * minuteMs);
  assert.deepEqual(types(1, [], { deployments: [before, first, next, late] }), ['deployment.succeeded']);
  assert.deepEqual(types(600, [], { deployments: [before, first, next, late] }), []);
});

test('a clock that was hours ahead keeps nothing from being told in its time once it is right', () => {
  const { look, types, now } = watcher();
  look(6 * 60, [away]);
  assert.deepEqual(types(-6 * 60, [away]), []);
  assert.deepEqual(types(1, [away]), ['host.lost']);
  look(6 * 60, [away]);
  look(1, []);
  assert.deepEqual(types(-6 * 60, []), []);
  assert.deepEqual(types(5, []), ['host.back']);

  const app = { id: 'a1', name: 'shop' };
  const ended = (id: string): EndedDeployment => {
    return { id, app, version: 7, hasFailed: false, endedAt: new Date(now()).toISOString() };
  };
  const all = [ended('d1')];
  look(6 * 60, []);
  all.push(ended('d2'));
  assert.deepEqual(types(1, [], { deployments: all }), ['deployment.succeeded', 'deployment.succeeded']);
  look(-6 * 60, [], { deployments: all });
  all.push(ended('d3'));
  assert.deepEqual(
    look(1, [], { deployments: all }).map(({ about, text }) => [about, text]),
    [['deployment a1', 'v7 is deployed']],
  );
  const update: EndedUpdate = { version: '2.1', outcome: 'moved', at: new Date(now() + 360 * minuteMs).toISOString() };
  assert.deepEqual(types(0, [], { deployments: all, update }), ['update.succeeded']);
});

test('an update is told as it ended in the end, once', () => {
  const { look, types, now } = watcher();
  const update = (outcome: EndedUpdate['outcome'], version: string): EndedUpdate => {
    return { version, previous: '1.0', outcome, at: new Date(now()).toISOString() };
  };
  assert.deepEqual(types(0, [], { update: update('moved', '1.0') }), [], 'it may be the way back from another');
  const back = update('back', '2.0');
  const [told] = look(1, [], { update: back });
  assert.deepEqual(
    [told?.type, told?.text],
    ['update.failed', 'the cluster went back to version 1.0, and is as it was'],
  );
  assert.deepEqual(types(1, [], { update: back }), []);
  assert.deepEqual(types(1, [], { update: update('unknown', '3.0') }), [], 'a later version ended it in its own way');
  const moved = update('moved', '2.1');
  assert.deepEqual(types(1, [], { update: moved }), ['update.succeeded']);
});

test('who asks for a sort of event gets it however grave it is; of all other findings what is grave enough', () => {
  const of = (type: Message['type'], severity: Message['severity'], appIds: string[] = []) => {
    const subject = { kind: 'component', name: 'x' } as const;
    return { message: { id: 'm', type, about: 'x', at: '', severity, subject, title: '', text: '' }, appIds };
  };
  const wish = (...on: string[]): Wish => ({ on, severity: 'critical' });
  assert.ok(isWanted(of('backup.failed', 'warning'), wish('backup')));
  assert.ok(!isWanted(of('backup.failed', 'warning'), wish('finding')));
  assert.ok(isWanted(of('backup.failed', 'critical'), wish('finding')));
  assert.ok(isWanted(of('finding.began', 'warning'), { on: ['finding'], severity: 'warning' }));
  assert.ok(!isWanted(of('deployment.failed', 'warning'), { on: ['finding'], severity: 'warning' }));
  assert.ok(isWanted(of('deployment.failed', 'warning'), wish('deployment.failed')));
  assert.ok(!isWanted(of('deployment.succeeded', 'info'), wish('deployment.failed')));
  assert.ok(isWanted(of('deployment.succeeded', 'info'), wish('deployment')));
  const ofShop = { ...wish('app'), appId: 'shop' };
  assert.ok(isWanted(of('app.failing', 'warning', ['blog', 'shop']), ofShop));
  assert.ok(!isWanted(of('app.failing', 'warning', ['blog']), ofShop));
});
