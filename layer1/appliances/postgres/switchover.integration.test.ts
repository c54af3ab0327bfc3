/** A PostgreSQL of three members: the lead goes to the one that is named, whichever had all that was committed before. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { type PostgresMembers, startMembers } from './members-fixture.ts';
import { postgres } from './postgres.ts';

const client = '/usr/lib/flynn/flynn-postgres-members';

/** Of the Patroni beside: what Python makes of what it says there. */
async function ofPatroni(place: PostgresMembers, path: string, expression: string): Promise<string> {
  const script = `import json, urllib.request as u; said = json.load(u.urlopen('http://127.0.0.1:8008${path}'))`;
  const { stdout } = await place.exec(['python3', '-c', `${script}; print(${expression})`]);
  return stdout.toString().trim();
}

/** Once all of them run, and how far behind they are is known: a copy that need not have all that is committed. */
async function untilBehind(place: PostgresMembers): Promise<string> {
  return await waitFor(
    async () => {
      const { members } = await place.status();
      const lags = "all(type(one.get('lag')) is int for one in said['members'] if one['role'] != 'leader')";
      const isWhole = members.every(({ state }) => state === 'running' || state === 'streaming');
      const isSettled = isWhole && members.filter(({ isSynchronous }) => isSynchronous).length === 1;
      if (members.length < 3 || !isSettled || (await ofPatroni(place, '/cluster', lags)) !== 'True') return undefined;
      return members.find(({ isPrimary, isSynchronous }) => !isPrimary && !isSynchronous)?.address;
    },
    { what: 'two copies', deadlineMs: 120_000, intervalMs: 500 },
  );
}

/** What its copy gets of the primary's log stays where it is, or goes on. */
async function signalReceiver(place: PostgresMembers, member: number, signal: 'STOP' | 'CONT'): Promise<void> {
  // The brackets keep the shell from finding itself.
  const script = `for p in /proc/[0-9]*; do
      grep -q 'walreceive[r]' $p/cmdline && kill -${signal} \${p#/proc/} && told=yes
    done
    [ -n "$told" ]`;
  const ended = await place.exec(['sh', '-c', script], { member });
  assert.equal(ended.code, 0, `nothing receives the log of the primary: ${ended.stderr}`);
}

/** The program is told to end once commits wait for both copies; it waits for that one ten seconds by itself. */
const leavesEarly = `
import json, subprocess, sys, time, urllib.request as u
asking = subprocess.Popen(sys.argv[1:])
while json.load(u.urlopen("http://127.0.0.1:8008/config"))["synchronous_node_count"] != 2:
    if asking.poll() is not None:
        sys.exit("it ended before both copies were waited for")
    time.sleep(0.05)
asking.terminate()
sys.exit(asking.wait())
`;

test('the copy that is named has all that was committed first, then takes over, and one copy is to have all again', async () => {
  await using place = await startMembers({ count: 3 });
  const { members } = await place.copied();
  const former = members.find(({ isPrimary }) => isPrimary)?.address;
  const next = members.find(({ isPrimary, isSynchronous }) => !isPrimary && !isSynchronous)?.address ?? '';
  await place.query('CREATE TABLE moved (); ALTER TABLE moved OWNER TO app');
  const moved = await place.exec([...postgres.commands.switchover, next]);
  assert.equal(moved.code, 0, moved.stderr);
  assert.deepEqual(JSON.parse(moved.stdout.toString()), { from: former, to: next });
  const isOne = async () => (await place.status()).members.filter(({ isSynchronous }) => isSynchronous).length === 1;
  await waitFor(isOne, { what: 'one synchronous copy', deadlineMs: 60_000, intervalMs: 500 });
  assert.equal(await place.query("SELECT to_regclass('moved')"), 'moved');

  // Whoever asks is gone while the program waits: commits do not wait for all copies for ever.
  const behind = await untilBehind(place);
  const addresses = await Promise.all([1, 2, 3].map((member) => place.addressOf(member)));
  const member = addresses.indexOf(behind) + 1;
  await signalReceiver(place, member, 'STOP');
  await place.query('CREATE TABLE late ()');
  const left = await place.exec(['python3', '-c', leavesEarly, client, 'switchover', behind]);
  // By itself it would have said why.
  assert.deepEqual([left.code, left.stderr], [1, '']);
  await waitFor(async () => (await ofPatroni(place, '/config', "said['synchronous_node_count']")) === '1', {
    what: 'one copy to be waited for',
    deadlineMs: 60_000,
    intervalMs: 500,
  });
  await signalReceiver(place, member, 'CONT');
});
