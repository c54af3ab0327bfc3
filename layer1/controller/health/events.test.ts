import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Finding } from '@flynn/host-agent/doctor/finding';
import { newId } from '@flynn/kit/ids';
import { createMemoryStore } from '@flynn/store/memory';
import { auditRoot } from '../audit/trail.ts';
import { HealthEvents, eventsKey, readHealthState } from './events.ts';

const { signal } = new AbortController();
const minuteMs = 60_000;
const finding = (check: string, severity: Finding['severity'], what = 'it is so'): Finding => {
  return { check, severity, subject: 'host h1', what, why: 'w', remedy: 'r' };
};
const away = finding('hosts', 'warning');
const full = finding('disks', 'critical');
const passing = finding('components', 'warning');

function setUp() {
  const store = createMemoryStore();
  const clock = { now: Date.now() };
  const open = () => new HealthEvents({ store, now: () => clock.now, newId });
  const look = async (events: HealthEvents, findings: Finding[], unknown: string[] = []) => {
    clock.now += minuteMs;
    const known = unknown.map((check) => ({ check, subject: 'the cluster', why: 'no answer' }));
    await events.record({ findings, unknown: known }, signal);
  };
  const told = async (events: HealthEvents) =>
    (await events.recent(signal)).map(({ what, check }) => `${what} ${check}`);
  return { store, clock, open, look, told };
}

test('what is broken and a host that is away are told at once, what passes is not, and each is told once', async () => {
  const { store, open, look, told } = setUp();
  const events = open();
  await look(events, [away, full, passing]);
  assert.deepEqual(await told(events), ['began hosts', 'began disks']);
  await look(events, [away, { ...full, what: 'it is 98 % so' }]);
  await look(events, [full, passing]);
  assert.deepEqual(await told(events), ['ended hosts', 'began hosts', 'began disks']);
  await look(events, [full, passing]);
  assert.deepEqual((await told(events)).slice(0, 1), ['began components']);
  const { entries } = await store.list(auditRoot);
  assert.equal(entries.length, 4);
  const first = JSON.parse(entries[0]?.value ?? '{}');
  assert.deepEqual(
    [first.actor, first.params.subject, first.outcome],
    [{ kind: 'service', name: 'cluster' }, 'host h1', 'warning'],
  );
});

test('what cannot be looked at has not ended, nor has anything of hosts while no agent answers', async () => {
  const { open, look, told } = setUp();
  const events = open();
  await look(events, [full]);
  await look(events, [], ['disks']);
  await look(events, [], ['hosts']);
  assert.deepEqual(await told(events), ['began disks']);
  await look(events, []);
  assert.deepEqual(await told(events), ['ended disks', 'began disks']);
});

test('what one host cannot look at holds nothing of another', async () => {
  const { clock, open, told } = setUp();
  const events = open();
  const lookWithout = async (findings: Finding[], host: string) => {
    clock.now += minuteMs;
    const unknown = host === '' ? [] : [{ check: 'disks', subject: `host ${host}`, why: 'EIO' }];
    await events.record({ findings, unknown }, signal);
  };
  const both = [full, { ...full, subject: 'host h7' }];
  await lookWithout(both, '');
  await lookWithout([], 'h7');
  assert.deepEqual(await told(events), ['ended disks', 'began disks', 'began disks']);
  assert.equal((await events.recent(signal))[0]?.subject, 'host h1');
  await lookWithout([], '');
  assert.deepEqual((await told(events)).slice(0, 2), ['ended disks', 'ended disks']);
});

test('a host that is back is told although the same check finds something else as grave on it', async () => {
  const { store, open, look, told } = setUp();
  const events = open();
  const gone: Finding = { ...finding('hosts', 'critical'), isAway: true };
  const skew = finding('hosts', 'critical', 'its clock is wrong');
  await look(events, [gone]);
  // As a version before wrote it down.
  const state = await readHealthState(store, signal);
  const before = { ...state, recent: [], open: { 'critical hosts host h1': Object.values(state?.open ?? {})[0] } };
  await store.transact({ then: [{ put: eventsKey, value: JSON.stringify(before) }] });
  await look(events, [gone]);
  assert.deepEqual(await told(events), []);
  await look(events, [skew]);
  assert.deepEqual((await told(events)).toSorted(), ['began hosts', 'ended hosts']);
});

test('of a host on which two apps crash each is told, with what to do', async () => {
  const { store, open, look, told } = setUp();
  const events = open();
  const ofApp = (app: string): Finding => ({ ...finding('drift', 'critical'), app });
  const [shop, blog] = [ofApp('shop'), ofApp('blog')];
  await look(events, [shop, blog]);
  await look(events, [blog]);
  assert.deepEqual(await told(events), ['ended drift', 'began drift', 'began drift']);
  const state = await readHealthState(store, signal);
  assert.deepEqual(
    Object.values(state?.open ?? {}).map(({ app, remedy }) => [app, remedy]),
    [['blog', 'r']],
  );
});

test('of one subject each thing that a check finds is told apart, with what is so by now', async () => {
  const { store, open, look, told } = setUp();
  const events = open();
  const of = (matter: string, what: string): Finding => ({ ...finding('blobs', 'warning', what), matter });
  const replaced = of('replaced', 'its disk damaged 1 blob');
  const missing = (count: number) => of('missing', `it has yet to get ${count} blobs`);
  for (let looks = 0; looks < 2; looks += 1) await look(events, [replaced]);
  for (let count = 1; count <= 2; count += 1) await look(events, [replaced, missing(count)]);
  assert.deepEqual(await told(events), ['began blobs', 'began blobs']);
  await look(events, [replaced, missing(900)]);
  const texts = async () => Object.values((await readHealthState(store, signal))?.open ?? {}).map(({ text }) => text);
  assert.deepEqual(await texts(), ['its disk damaged 1 blob', 'it has yet to get 900 blobs']);
  for (let looks = 0; looks < 2; looks += 1) await look(events, [missing(900)]);
  assert.deepEqual(await texts(), ['it has yet to get 900 blobs']);
  assert.equal((await told(events))[0], 'ended blobs');
});

test('what a version before began goes on, and so does what an agent of that version tells in turn', async () => {
  const { store, open, look, told } = setUp();
  const events = open();
  const [before, other] = ['it is 90 % full', 'its inodes are used up'].map((what) =>
    finding('disks', 'critical', what),
  );
  assert.ok(before !== undefined && other !== undefined);
  const [room, inodes] = [
    { ...before, matter: 'room', what: 'it is 91 % full' },
    { ...other, matter: 'inodes' },
  ];
  await look(events, [before]);
  await look(events, [room]);
  assert.deepEqual(await told(events), ['began disks']);
  await look(events, [inodes, room]);
  await look(events, [room, inodes]);
  assert.deepEqual(await told(events), ['began disks', 'began disks']);
  const state = await readHealthState(store, signal);
  assert.deepEqual(
    Object.values(state?.open ?? {}).map(({ text }) => text),
    [room.what, inodes.what],
  );
  await look(events, []);
  await look(events, [room]);
  await look(events, [before]);
  assert.deepEqual((await told(events)).slice(0, 3), ['began disks', 'ended disks', 'ended disks']);
});

test('agents of two versions that answer in turn end nothing, and have what is found begin all the same', async () => {
  const { open, look, told } = setUp();
  const events = open();
  const of = (severity: Finding['severity'], path: string, percent: number): Finding => {
    return { ...finding('disks', severity, `the disk ${path} is ${percent} % full`), matter: `room ${path}` };
  };
  const asBefore = ({ matter: _matter, ...one }: Finding): Finding => one;
  const both = [of('critical', '/', 97), of('critical', '/var', 97)];
  for (let looks = 0; looks < 10; looks += 1) await look(events, looks % 2 === 0 ? both : both.map(asBefore));
  assert.deepEqual(await told(events), ['began disks', 'began disks']);
  await look(events, [both[1] ?? away]);
  assert.deepEqual(await told(events), ['ended disks', 'began disks', 'began disks']);

  const late = setUp();
  const third = late.open();
  await late.look(third, both.slice(0, 1));
  for (let looks = 0; looks < 3; looks += 1) await late.look(third, both.map(asBefore));
  await late.look(third, both);
  assert.deepEqual(await late.told(third), ['began disks', 'began disks']);

  const next = setUp();
  const other = next.open();
  const warned = [of('warning', '/', 90), of('warning', '/var', 90)];
  for (let looks = 0; looks < 4; looks += 1) await next.look(other, looks % 2 === 0 ? warned.map(asBefore) : warned);
  assert.deepEqual(await next.told(other), ['began disks', 'began disks']);
  await next.look(other, warned.map(asBefore));
  const state = await readHealthState(next.store, signal);
  assert.deepEqual(
    new Set(Object.values(state?.open ?? {}).map(({ matter }) => matter)),
    new Set(['room /', 'room /var']),
  );
});

test('what a version before told is known by its matter from the first look on, also where it is graver by then', async () => {
  const { store, open, look, told } = setUp();
  const events = open();
  const warned = finding('disks', 'warning', 'it is 90 % full');
  for (let looks = 0; looks < 2; looks += 1) await look(events, [warned]);
  await look(events, [{ ...finding('disks', 'critical', 'it is 97 % full'), matter: 'room' }]);
  assert.deepEqual(await told(events), ['began disks', 'began disks']);
  const state = await readHealthState(store, signal);
  assert.deepEqual(
    Object.values(state?.open ?? {}).map(({ severity, matter }) => [severity, matter]),
    [
      ['warning', 'room'],
      ['critical', 'room'],
    ],
  );
});

test('of several processes one tells, and another once that one is silent', async () => {
  const { store, open, look, told } = setUp();
  const [one, other] = [open(), open()];
  await look(one, [full]);
  await look(other, []);
  await look(other, [full, away]);
  assert.deepEqual(await told(other), ['began disks']);
  await look(other, [full, away]);
  assert.deepEqual(await told(one), ['began hosts', 'began disks']);
  await look(one, []);
  assert.equal((await store.list(auditRoot)).entries.length, 2);
});

test('a process that no agent answers tells only as long as no other sees more', async () => {
  const { open, look, told } = setUp();
  const [blind, next] = [open(), open()];
  const unseen: Finding = { ...finding('hosts', 'critical', 'no agent answers'), matter: 'unseen' };
  await look(blind, [unseen], ['hosts']);
  await look(next, [unseen], ['hosts']);
  assert.deepEqual(await told(next), ['began hosts']);
  await look(next, [full]);
  await look(blind, [unseen], ['hosts']);
  assert.deepEqual((await told(next)).toSorted(), ['began disks', 'began hosts', 'ended hosts']);
});

test('a process whose clock is ahead tells as long as it looks; once it is gone another does, whatever it wrote', async () => {
  const { clock, open, look, told } = setUp();
  const [ahead, next] = [open(), open()];
  const hourMs = 60 * minuteMs;
  const lookAhead = async (findings: Finding[]) => {
    clock.now += hourMs;
    await look(ahead, findings);
    clock.now -= hourMs + minuteMs;
  };
  for (let looks = 0; looks < 6; looks += 1) {
    await lookAhead([]);
    await look(next, [full]);
  }
  assert.deepEqual(await told(next), []);
  for (let looks = 0; looks < 2; looks += 1) await look(next, [full]);
  assert.deepEqual(await told(next), []);
  await look(next, [full]);
  assert.deepEqual(await told(next), ['began disks']);
});

test('a clock that was put back makes nobody wait for what it wrote before', async () => {
  const { clock, open, look, told } = setUp();
  await look(open(), []);
  const next = open();
  await look(next, [full]);
  clock.now -= 24 * 60 * minuteMs;
  for (let looks = 0; looks < 3; looks += 1) await look(next, [full]);
  assert.deepEqual(await told(next), []);
  await look(next, [full]);
  assert.deepEqual(await told(next), ['began disks']);
});

test('of very many only so many are told one by one, those that are broken among them, and how many more there are', async () => {
  const { store, open, look, told } = setUp();
  const events = open();
  const many = (count: number) =>
    Array.from({ length: count }, (_, at) => ({ ...away, subject: `host ${at}`, what: 'x'.repeat(2_000) }));
  const state = async () => (await store.get(eventsKey))?.value ?? '';
  for (let looks = 0; looks < 8; looks += 1) await look(events, many(5_000));
  assert.equal(Object.keys(JSON.parse(await state()).open).length, 201);
  await look(events, [full, ...many(5_000)]);
  assert.deepEqual((await told(events)).slice(0, 1), ['began disks']);
  assert.ok((await state()).length < 256 * 1_024, 'the value is large');
  for (let looks = 0; looks < 5; looks += 1) await look(events, many(50));
  assert.equal(Object.keys(JSON.parse(await state()).open).length, 50);
  const recorded = (await store.list(auditRoot)).entries.map(({ value }) => JSON.parse(value));
  const text = '4800 more findings than are told one by one: flynn doctor has them all';
  assert.deepEqual(
    recorded.flatMap(({ params, outcome }) => (params.check === 'events' ? [[params.text, outcome]] : [])),
    [
      [text, 'warning'],
      [text, 'ended'],
    ],
  );
});
