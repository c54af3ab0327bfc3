import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { Shell, quoted } from './shell.ts';

test('scripts run in one shell, one after the other, and leave nothing behind for the next', async () => {
  const shell = new Shell();
  const [first, second] = await Promise.all([
    shell.run('kept=1; cd /; echo "$PPID"; sleep 0.05; echo one'),
    shell.run('echo "$PPID"; echo "${kept-nothing} two"'),
  ]);
  const [parent] = first.split('\n');
  assert.equal(first, `${parent}\none\n`);
  assert.equal(second, `${parent}\nnothing two\n`);
});

test('what a script says goes with its failure, and the shell goes on', async () => {
  const shell = new Shell();
  await assert.rejects(shell.run('echo out; echo "no such thing" >&2; exit 3'), {
    code: 'internal',
    message: 'a script failed with 3: no such thing',
  });
  assert.equal(await shell.run('echo warned >&2; echo fine'), 'fine\n');
});

test('a script that is not one ends the shell, and there is another', async () => {
  const shell = new Shell();
  await assert.rejects(shell.run('fi )'), (error) => hasCode(error, 'internal'));
  assert.equal(await shell.run('echo fine'), 'fine\n');
});

test('a script past its deadline is killed with all it started', async () => {
  const shell = new Shell();
  const mark = `4${process.pid}`;
  await assert.rejects(shell.run(`sleep ${mark} & sleep ${mark}`, { deadlineMs: 200 }), (error) =>
    hasCode(error, 'timeout'),
  );
  // Who was killed is gone once it has had its turn.
  const left = () => shell.run(`grep -lsa "^sleep.${mark}" /proc/[0-9]*/cmdline || true`);
  await waitFor(async () => (await left()) === '', { what: 'their end', deadlineMs: 30_000 });
});

test('a large output comes whole, and an empty one empty', async () => {
  const shell = new Shell();
  assert.equal((await shell.run('i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done')).length, 220_000);
  assert.equal(await shell.run('true'), '');
});

test('a quoted word stays one word', async () => {
  const words = ["it's", 'a b', '$HOME', '`id`', ''];
  assert.equal(await new Shell().run(`printf '%s\\n' ${words.map(quoted).join(' ')}`), `${words.join('\n')}\n`);
});
