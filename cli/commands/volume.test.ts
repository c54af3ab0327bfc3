import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { runCli } from '../program.ts';
import { type Desk, openDeskWithController } from '../testing.ts';

const db = { volumes: [{ name: 'data', path: '/data' }] };

async function open() {
  const env = await openDeskWithController({ hosts: 1 });
  await env.controller.deployApp('shop', { db });
  await env.desk.run(['-a', 'shop', 'scale', 'db=1']);
  await env.controller.jobsOf('shop', 1);
  return env;
}

async function rowsOf(desk: Desk, ...argv: string[]): Promise<string[][]> {
  const { stdout, stderr, code } = await desk.run(argv);
  assert.equal(code, 0, stderr);
  return stdout
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => line.split(/ {2,}/));
}

/** What was asked, and the outcome, of a person who types `answer`. */
async function typed(desk: Desk, argv: string[], answer: string): Promise<{ code: number; asked: string }> {
  const io = desk.io();
  io.stdin.isTTY = true;
  const done = runCli(argv, io);
  await waitFor(() => /to go on: /.test(io.stderr.text), { what: 'the question', deadlineMs: 30_000 });
  io.stdin.end(`${answer}\n`);
  return { code: await done, asked: io.stderr.text };
}

test('`volume` tells what apps keep and who has it; `volume remove` takes what nobody has, once it is meant', async () => {
  await using env = await open();
  const { desk } = env;
  const [row, ...others] = await rowsOf(desk, 'volume');
  const [id = '', ...rest] = row ?? [];
  assert.deepEqual(others, []);
  assert.deepEqual([...rest.slice(0, 5), rest.at(-1)], ['shop', 'db', 'data', 'host1', '4.0 KiB', 'in-use']);
  const used = await desk.run(['volume', 'remove', '-y', id]);
  assert.equal(used.code, 1);
  assert.match(
    used.stderr,
    /the volume data of shop \(db\) on host1 is in use by the job \S+: nothing was removed\n {2}flynn scale db=0 -a shop/,
  );
  await desk.run(['-a', 'shop', 'scale', 'db=0']);
  assert.equal((await rowsOf(desk, 'volume', 'list', '-a', 'shop'))[0]?.at(-1), 'unused');
  const refused = await desk.run(['volume', 'remove', id]);
  assert.equal(refused.code, 1);
  assert.match(
    refused.stderr,
    /removing the volume data of shop \(db\) on host1 with all that is in it cannot be undone\n {2}say so with -y/,
  );
  const other = await typed(desk, ['volume', 'remove', id], 'yes');
  assert.equal(other.code, 1);
  assert.match(other.asked, /that was not "[0-9a-f]{12}": nothing was removed/);
  assert.equal((await rowsOf(desk, 'volume')).length, 1);
  assert.equal((await typed(desk, ['volume', 'remove', id], id)).code, 0);
  assert.deepEqual(await rowsOf(desk, 'volume'), []);
  const again = await desk.run(['volume', 'remove', '-y', id]);
  assert.match(again.stderr, /there is no volume "[0-9a-f]{12}"\n {2}list them with: flynn volume list/);
});

test('`delete` tells which volumes it leaves, and how they go; with `--volumes` they go, too', async () => {
  await using env = await open();
  const { desk, controller } = env;
  const [[id = ''] = []] = await rowsOf(desk, 'volume');
  const deleted = await desk.run(['delete', '-y', '-a', 'shop']);
  assert.equal(
    deleted.stdout,
    `Deleted shop: 1 route, 1 release, 1 job, 1 artifact\nleft: the volume data of shop (db, deleted) on host1; "flynn volume remove ${id}" removes it\n`,
  );
  assert.equal((await rowsOf(desk, 'volume'))[0]?.at(-1), 'app-deleted');
  const removed = await desk.run(['volume', 'remove', '-y', id]);
  assert.equal(removed.stdout, 'Removed the volume data of shop (db, deleted) on host1\n', removed.stderr);
  await controller.deployApp('other', { db });
  await desk.run(['-a', 'other', 'scale', 'db=1']);
  await controller.jobsOf('other', 1);
  const asked = await typed(desk, ['delete', '--volumes', '-a', 'other'], 'no');
  assert.match(asked.asked, /^Deleting other with what is on its volumes cannot be undone\. Type its name to go on: /);
  const both = await desk.run(['delete', '-y', '--volumes', 'app', 'other']);
  assert.equal(both.stdout, 'Deleted other: 1 route, 1 release, 1 job, 1 artifact, 1 volume\n', both.stderr);
  assert.deepEqual(await rowsOf(desk, 'volume'), []);
  const wrong = await desk.run(['delete', '--volumes', 'cron', 'x']);
  assert.deepEqual([wrong.code, /--volumes is for apps/.test(wrong.stderr)], [2, true]);
});

test('a host that does not answer is named, for what it has is in no list', async () => {
  await using env = await open();
  const { desk, controller } = env;
  const [[id = ''] = []] = await rowsOf(desk, 'volume');
  await controller.hosts[0]?.[Symbol.asyncDispose]();
  await waitFor(() => controller.deps.cell.hosts.snapshot.entries.size === 0, {
    what: 'the host to be away',
    deadlineMs: 60_000,
  });
  const list = await desk.run(['volume']);
  assert.match(list.stderr, /^flynn: what host1 has is not known, it did not answer: host host1 is not in the cluster/);
  const remove = await desk.run(['volume', 'remove', '-y', id]);
  assert.match(remove.stderr, /what host1 has is not known[^]*there is no volume/);
  const deleted = await desk.run(['delete', '-y', '--volumes', '-a', 'shop']);
  assert.equal(deleted.code, 0, deleted.stderr);
  assert.match(deleted.stderr, /what host1 has is not known/);
});
