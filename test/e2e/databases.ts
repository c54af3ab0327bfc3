import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { pause } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import type { Checkout } from '../checkout.ts';
import type { TestCluster } from '../test-cluster.ts';

const database = 'guestbook-postgres';
const longMs = 240_000;
/** Longer than any lease that a host or a primary may have lasts without being renewed. */
const aWhileMs = 15_000;
/** Of the three hosts' suite: it stays until the end. */
let lastConfirmed: string | undefined;

let writers = 0;

/** Notes that the app has confirmed, one after the other, until it is told to stop. */
class Writer {
  readonly confirmed: string[] = [];
  /** Those that were not. */
  refused = 0;
  /** The longest time without one. */
  longestMs = 0;
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;
  /** What one wrote is taken for nothing that another did. */
  readonly #name = `writer-${(writers += 1)}`;

  constructor(write: (note: string) => Promise<boolean>) {
    this.#running = this.#run(write);
  }

  async #run(write: (note: string) => Promise<boolean>): Promise<void> {
    let lastMs = performance.now();
    for (let number = 1; !this.#ending.signal.aborted; number += 1) {
      const note = `${this.#name}-${number}`;
      if (await write(note)) {
        this.longestMs = Math.max(this.longestMs, performance.now() - lastMs);
        lastMs = performance.now();
        this.confirmed.push(note);
      } else this.refused += 1;
      await pause(50, this.#ending.signal);
    }
  }

  /** Once so many more were confirmed. */
  async more(count: number): Promise<void> {
    const wanted = this.confirmed.length + count;
    await waitFor(async () => this.confirmed.length >= wanted, {
      what: `${count} notes more`,
      deadlineMs: longMs,
      intervalMs: 50,
    });
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }
}

const answersOf = (text: string): string[] => text.split('\n').filter((line) => line !== '');

async function notesOf(cluster: TestCluster, host: ClusterHost): Promise<string[]> {
  const { body } = await waitFor(
    async () => {
      const answer = await cluster.get('guestbook', '/', { host });
      return answer.status === 200 ? answer : undefined;
    },
    { what: 'the notes', deadlineMs: longMs, intervalMs: 200 },
  );
  return answersOf(body);
}

function startWriter(cluster: TestCluster, host: ClusterHost): Writer {
  return new Writer(async (note) => {
    try {
      return (await cluster.get('guestbook', `/?note=${note}`, { host })).status === 200;
    } catch {
      // Its router, or the app, is on its way elsewhere.
      return false;
    }
  });
}

/** Ends the writing: all that was confirmed is among the notes, which are the answer. */
async function assertKept(
  t: TestContext,
  { writer, cluster, host }: { writer: Writer; cluster: TestCluster; host: ClusterHost },
): Promise<string[]> {
  await writer.stop();
  t.diagnostic(`${(writer.longestMs / 1_000).toFixed(1)} s without a note at most`);
  const notes = await notesOf(cluster, host);
  const kept = new Set(notes);
  assert.deepEqual(
    writer.confirmed.filter((note) => !kept.has(note)),
    [],
  );
  return notes;
}

type Member = { host: string; role: string; isSynchronous: boolean };

async function membersOf(cluster: TestCluster, host: ClusterHost): Promise<Member[]> {
  const { stdout } = await cluster.flynn(['-a', 'guestbook', 'pg', 'info', '--json'], { host });
  return (JSON.parse(stdout) as { members: Member[] }[]).flatMap(({ members }) => members);
}

/** Until there is a primary, and a copy that has all that is committed: it may take over. */
function untilWhole(cluster: TestCluster, host: ClusterHost): Promise<Member[]> {
  return waitFor(
    async () => {
      const members = await membersOf(cluster, host);
      const isWhole =
        members.length === 2 &&
        members.some(({ role }) => role === 'primary') &&
        members.some(({ role, isSynchronous }) => role === 'replica' && isSynchronous);
      return isWhole ? members : undefined;
    },
    { what: 'a primary and a copy', deadlineMs: longMs, intervalMs: 500 },
  );
}

async function primaryHost(cluster: TestCluster, host: ClusterHost): Promise<ClusterHost> {
  const members = await untilWhole(cluster, host);
  const name = members.find(({ role }) => role === 'primary')?.host;
  return cluster.hosts.find((one) => one.name === name) ?? assert.fail(`no host ${name}`);
}

function other(cluster: TestCluster, ...than: readonly ClusterHost[]): ClusterHost {
  return cluster.hosts.find((host) => !than.includes(host)) ?? assert.fail('there is no other host');
}

/** An app with a database, into which it has written. */
async function pushGuestbook(cluster: TestCluster): Promise<Checkout> {
  const app = await cluster.checkout('guestbook');
  await app.push();
  const { status, body } = await app.untilAnswers();
  assert.deepEqual([status, body], [200, 'no database yet\n']);
  const { stdout } = await app.flynn(['resource', 'add', 'postgres']);
  assert.match(stdout, /^Created resource \w+ and release v\d+\.\n$/);
  assert.deepEqual((await app.get('/?note=first')).body, 'first\n');
  return app;
}

export function describeDatabase(theCluster: () => TestCluster): void {
  let app: Checkout;
  let moment = '';

  test('an app gets a PostgreSQL of its own, and has written into it when the command has ended', async () => {
    app = await pushGuestbook(theCluster());
    const { stdout } = await app.flynn(['pg', 'psql', '--sql', 'SELECT note FROM notes', '--', '-At']);
    assert.equal(stdout, 'first\n');
    const members = await membersOf(theCluster(), theCluster().host);
    assert.deepEqual(
      members.map(({ role }) => role),
      ['primary'],
    );
  });

  test('what is in it at a moment is kept', async () => {
    const hasBegun = async () => /^Moments: +\d/m.test((await app.flynn(['pg', 'history'])).stdout);
    await waitFor(hasBegun, { what: 'the first moment', deadlineMs: longMs, intervalMs: 1_000 });
    await app.get('/?note=kept');
    const sql = 'SELECT now(), pg_sleep(0.1)';
    const { stdout } = await app.flynn(['pg', 'psql', '--sql', sql, '--', '-At', '-F,']);
    moment = new Date(stdout.split(',')[0] ?? '').toISOString();
    await app.flynn(['pg', 'psql', '--sql', "DELETE FROM notes WHERE note = 'kept'"]);
  });

  test('nobody else reaches it, whatever they know', async () => {
    const url = (await app.flynn(['env', 'get', 'DATABASE_URL'])).stdout.trim();
    const { hostname } = new URL(url);
    const program = `require('net').connect(5432, '${hostname}').setTimeout(3000, function () { console.log('closed'); process.exit() }).on('connect', () => { console.log('open'); process.exit() }).on('error', (e) => { console.log(e.code); process.exit() })`;
    const run = ['run', 'node', '-e', program];
    assert.equal((await app.flynn(run)).stdout.trim(), 'open');
    assert.notEqual((await theCluster().flynn(['-a', 'express', ...run])).stdout.trim(), 'open');
  });

  test('its password is another while it is written: nothing is refused, and the former one opens nothing', async (t: TestContext) => {
    const cluster = theCluster();
    const former = (await app.flynn(['env', 'get', 'DATABASE_URL'])).stdout.trim();
    const writer = startWriter(cluster, cluster.host);
    await writer.more(5);
    assert.match((await app.flynn(['pg', 'credentials', 'rotate'])).stdout, /the former password opens nothing/);
    await writer.more(5);
    await assertKept(t, { writer, cluster, host: cluster.host });
    assert.equal(writer.refused, 0);
    const login = (url: string) =>
      `new (require('pg').Client)('${url}').connect().then(() => console.log('in'), (e) => console.log(e.code)).then(() => process.exit())`;
    const tryIt = async (url: string) => (await app.flynn(['run', 'node', '-e', login(url)])).stdout.trim();
    assert.equal(await tryIt(former), '28P01');
    assert.equal(await tryIt((await app.flynn(['env', 'get', 'DATABASE_URL'])).stdout.trim()), 'in');
    const psql = await app.flynn(['pg', 'psql', '--sql', 'SELECT current_user, session_user', '--', '-At']);
    assert.equal(psql.stdout, 'app|app_1\n');
  });

  test('a database that dies is there again with all that was confirmed', async (t: TestContext) => {
    const cluster = theCluster();
    const writer = startWriter(cluster, cluster.host);
    await writer.more(5);
    const [container = ''] = await cluster.containers(database, 'postgres');
    await cluster.dockerOf(cluster.host, 'kill', container);
    await writer.more(20);
    await assertKept(t, { writer, cluster, host: cluster.host });
  });

  test('what was dumped, and what was backed up, comes back as it was; a file that is none changes nothing', async () => {
    const before = (await app.get()).body;
    await app.flynn(['pg', 'dump', '-o', 'notes.dump']);
    await app.flynn(['pg', 'backup', 'run']);
    const { stdout } = await app.flynn(['pg', 'backup', '--json']);
    const [backup] = (JSON.parse(stdout) as { backups: { id: string }[] }).backups;
    await app.flynn(['pg', 'psql', '--sql', 'DELETE FROM notes']);
    assert.equal((await app.get()).body, '');
    await app.write('wrong.dump', 'PGDMP and nothing of the kind');
    await app.flynn(['pg', 'restore', 'wrong.dump', '-y'], { code: 1 });
    assert.equal((await app.get()).body, '');
    await app.flynn(['pg', 'restore', 'notes.dump', '-y']);
    assert.equal((await app.untilAnswers()).body, before);
    await app.flynn(['pg', 'psql', '--sql', 'DROP TABLE notes']);
    await app.flynn(['pg', 'backup', 'restore', backup?.id ?? '', '-y']);
    assert.equal((await app.untilAnswers()).body, before);
  });

  test('it goes back to that moment, with what was deleted since and nothing that was written since', async () => {
    await app.flynn(['pg', 'backup', 'restore', '--at', moment, '-y'], { timeoutMs: longMs });
    assert.equal((await app.untilAnswers()).body, 'first\nkept\n');
    assert.match((await app.flynn(['pg', 'backup'])).stdout, /Restored guestbook-postgres to what there was at/);
  });
}

export function describeRedis(theCluster: () => TestCluster): void {
  test('an app gets a Redis beside its database: what it wrote is there when a member that died is back, and goes with it', async () => {
    const cluster = theCluster();
    const flynn = (...words: string[]) => cluster.flynn(['-a', 'guestbook', ...words]);
    await flynn('resource', 'add', 'redis');
    const program = `const { hostname, port, username, password } = new URL(process.env.REDIS_URL);
      const socket = require('net').connect(port, hostname).on('data', (said) => console.log(String(said).trim()));
      socket.write('AUTH ' + username + ' ' + password + '\\r\\nSET greeting hello\\r\\nQUIT\\r\\n');`;
    assert.match((await flynn('run', 'node', '-e', program)).stdout, /OK\s+\+OK/);
    const greeting = async () => (await flynn('redis', 'cli', '--', 'GET', 'greeting')).stdout.trim();
    assert.equal(await greeting(), 'hello');
    const [container = ''] = await cluster.containers('guestbook-redis', 'redis');
    await cluster.dockerOf(cluster.host, 'kill', container);
    // It serves before it is announced again, and is found by its name alone.
    await waitFor(async () => (await greeting().catch(() => '')) === 'hello', {
      what: 'it to be back',
      deadlineMs: longMs,
      intervalMs: 200,
    });
    const [view] = JSON.parse((await flynn('redis', '--json')).stdout) as { database?: { keys: number } }[];
    assert.equal(view?.database?.keys, 1);
    const all = JSON.parse((await flynn('resource', '--json')).stdout) as { id: string; provider: string }[];
    await flynn('resource', 'remove', all.find(({ provider }) => provider === 'redis')?.id ?? '', '-y');
    assert.deepEqual(await cluster.containers('guestbook-redis', 'redis'), []);
  });
}

export function describeDatabaseRemoval(theCluster: () => TestCluster): void {
  test('taken back it is gone: its containers, its volumes, and what led to it', async () => {
    const cluster = theCluster();
    const ofApp = ['-a', 'guestbook'];
    const { stdout } = await cluster.flynn([...ofApp, 'resource', '--json']);
    const [resource] = JSON.parse(stdout) as { id: string }[];
    const { stderr } = await cluster.flynn(['resource', 'remove', resource?.id ?? ''], { code: 1 });
    assert.match(stderr, /removing guestbook-postgres, with all that is in it and its backups, cannot be undone/);
    await cluster.flynn(['resource', 'remove', resource?.id ?? '', '-y']);
    assert.equal((await cluster.untilAnswers('guestbook')).body, 'no database yet\n');
    assert.deepEqual(await cluster.containers(database, 'postgres'), []);
    const keys = await cluster.storeKeys();
    assert.deepEqual(
      keys.filter((key) => key.startsWith('/flynn/keyspaces/')),
      [],
    );
    assert.doesNotMatch((await cluster.flynn(['volume'])).stdout, /postgres/);
    await cluster.flynn([...ofApp, 'delete', '-y']);
  });
}

/** It changes with each member that becomes the primary. */
async function timelineOf(cluster: TestCluster, host: ClusterHost): Promise<string> {
  const sql = 'SELECT pg_walfile_name(pg_current_wal_lsn())';
  const { stdout } = await cluster.flynn(['-a', 'guestbook', 'pg', 'psql', '--sql', sql, '--', '-At'], { host });
  return stdout.slice(0, 8);
}

export function describeReplicatedDatabase(theCluster: () => TestCluster): void {
  test('a database has a member on each of two hosts; the primary is moved by hand, and nothing that was confirmed is lost', async (t) => {
    const cluster = theCluster();
    const { host } = cluster;
    await pushGuestbook(cluster);
    await cluster.flynn(['-a', 'guestbook', 'scale', 'web=2']);
    const from = await primaryHost(cluster, host);
    const writer = startWriter(cluster, host);
    await writer.more(10);
    await cluster.flynn(['-a', 'guestbook', 'pg', 'switchover']);
    await writer.more(10);
    await assertKept(t, { writer, cluster, host });
    assert.notEqual((await primaryHost(cluster, host)).name, from.name);
  });

  test('the store stands still for longer than any lease: all is written, and who is primary stays it', async (t) => {
    const cluster = theCluster();
    const { host } = cluster;
    await untilWhole(cluster, host);
    const before = await timelineOf(cluster, host);
    const writer = startWriter(cluster, host);
    await writer.more(10);
    for (const one of cluster.hosts) one.freezeStore();
    try {
      await pause(aWhileMs, t.signal);
    } finally {
      for (const one of cluster.hosts) one.thawStore();
    }
    await writer.more(100);
    await assertKept(t, { writer, cluster, host });
    assert.equal(writer.refused, 0);
    assert.equal(await timelineOf(cluster, host), before);
  });

  test('its members begin anew with other limits, one after the other: the primary goes last and hands over once', async (t) => {
    const cluster = theCluster();
    const { host } = cluster;
    await untilWhole(cluster, host);
    const before = await timelineOf(cluster, host);
    const writer = startWriter(cluster, host);
    await writer.more(10);
    await cluster.flynn(['-a', database, 'limit', 'set', 'postgres', 'memory=600MB'], { timeoutMs: longMs });
    await writer.more(10);
    await assertKept(t, { writer, cluster, host });
    assert.equal(parseInt(await timelineOf(cluster, host), 16), parseInt(before, 16) + 1);
  });

  test('its primary leaves a host that drains, for another that has all that was confirmed', async (t) => {
    const cluster = theCluster();
    const from = await primaryHost(cluster, cluster.host);
    const host = other(cluster, from);
    const writer = startWriter(cluster, host);
    await writer.more(10);
    await cluster.flynn(['host', 'drain', from.name], { host });
    try {
      const hasLeft = async () =>
        (await membersOf(cluster, host)).some((member) => member.role === 'primary' && member.host !== from.name);
      await waitFor(hasLeft, { what: 'another primary', deadlineMs: longMs, intervalMs: 500 });
      await writer.more(10);
    } finally {
      await cluster.flynn(['host', 'undrain', from.name], { host });
    }
    await assertKept(t, { writer, cluster, host });
  });

  test('the host of its primary loses power: the copy takes over with all that was confirmed, and the host follows it', async (t) => {
    const cluster = theCluster();
    const lost = await primaryHost(cluster, cluster.host);
    const host = other(cluster, lost);
    const writer = startWriter(cluster, host);
    await writer.more(10);
    await lost.cutPower();
    await writer.more(20);
    lastConfirmed = (await assertKept(t, { writer, cluster, host })).at(-1);
    await lost.boot();
    assert.notEqual((await primaryHost(cluster, host)).name, lost.name);
  });
}

/** After whatever else befell the hosts. */
export function describeLastingDatabase(theCluster: () => TestCluster): void {
  test('a database that lost hosts, one after the other and all at once, has all that was confirmed, and a copy', async () => {
    const cluster = theCluster();
    const { host } = cluster;
    await untilWhole(cluster, host);
    const notes = await notesOf(cluster, host);
    assert.deepEqual(notes[0], 'first');
    assert.deepEqual(notes.at(-1), lastConfirmed);
    await cluster.flynn(['-a', 'guestbook', 'delete', '-y']);
    // Its database goes after it, by itself; a host that has a volume of it is not let go before.
    const hasGone = async () => !(await cluster.flynn(['volume'])).stdout.includes('postgres');
    await waitFor(hasGone, { what: 'the database to go with its app', deadlineMs: longMs, intervalMs: 500 });
  });
}
