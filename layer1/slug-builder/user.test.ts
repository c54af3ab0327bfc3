import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { runStep } from './user.ts';
import type { Step } from './user.ts';

function shell(script: string, signal: AbortSignal = new AbortController().signal): Step {
  return { command: ['sh', '-c', script], cwd: '/', env: { PATH: process.env['PATH'] ?? '' }, signal };
}

/** Some bytes, then nothing more and no end. */
function endless(): Readable {
  const input = new Readable({ read: () => undefined });
  input.push('some bytes');
  return input;
}

test('a step gets its input and gives its answer', async () => {
  const lines = Readable.from(['one\n', 'two\n']);
  assert.equal(await runStep(shell('wc -l | tr -d " " >&3'), lines), '2\n');
});

test('a step that ends well before its input does has not failed', async () => {
  const input = endless();
  assert.equal(await runStep(shell('head -c 4 >&3'), input), 'some');
  assert.ok(input.destroyed);
  // More than fits what lies between the two: it is left unread, which the connection tells in another way.
  assert.equal(await runStep(shell('head -c 4 >&3'), Readable.from([Buffer.alloc(10_000_000, 'x')])), 'xxxx');
});

test('a step that ends early and badly failed with its own exit code', async () => {
  await assert.rejects(runStep(shell('exit 3'), endless()), { name: 'StepFailure', exitCode: 3 });
  const large = Readable.from([Buffer.alloc(10_000_000)]);
  await assert.rejects(runStep(shell('exit 4'), large), { name: 'StepFailure', exitCode: 4 });
});

test('a step that answers more than there is to say is ended', async () => {
  const most = { bytes: 1_000, error: () => new FlynnError('invalid', 'too much') };
  const tooMuch = { code: 'invalid', message: 'too much' };
  await assert.rejects(runStep(shell('cat /dev/zero >&3'), Readable.from([]), most), tooMuch);
  await assert.rejects(runStep(shell('head -c 1001 /dev/zero >&3'), Readable.from([]), most), tooMuch);
  assert.equal((await runStep(shell('head -c 1000 /dev/zero >&3'), Readable.from([]), most)).length, 1_000);
});

test('an input that fails or stops in the middle is told, even if the step was content', async () => {
  const failing = Readable.from(
    (async function* () {
      yield 'some';
      throw new FlynnError('unavailable', 'the blob store is gone');
    })(),
  );
  await assert.rejects(runStep(shell('cat >/dev/null'), failing), { message: 'the blob store is gone' });
  const cut = endless();
  const ended = runStep(shell('head -c 1 >/dev/null; cat >/dev/null'), cut);
  setImmediate(() => cut.destroy());
  await assert.rejects(ended, /Premature close/);
});

test('a step that is ended fails with the reason, and its input goes', async () => {
  const ending = new AbortController();
  const input = endless();
  const ended = runStep(shell('cat >/dev/null', ending.signal), input);
  setImmediate(() => ending.abort(new FlynnError('timeout', 'it took too long')));
  await assert.rejects(ended, { code: 'timeout', message: 'it took too long' });
});
