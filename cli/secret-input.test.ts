import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { readSecret } from './secret-input.ts';
import { TestIo } from './testing.ts';

function terminal() {
  const io = new TestIo();
  io.stdin.isTTY = true;
  return io;
}

test('what is typed is not shown, is corrected as it is typed, and ends with its line', async () => {
  const io = terminal();
  const reading = readSecret(io, 'the password');
  assert.equal(io.stdin.isRaw, true, 'the terminal shows nothing by itself');
  const [first = 0, ...rest] = Buffer.from('ü2');
  for (const bytes of [Buffer.from('hunterx\u007f'), Buffer.from([first]), Buffer.from(rest), '\r'])
    io.stdin.write(bytes);
  assert.equal(await reading, 'hunterü2');
  assert.equal(io.stdin.isRaw, false);
  assert.equal(io.stderr.text, 'The password, which is not shown: \n');
  assert.equal(io.stdout.text, '');
});

test('Ctrl-C changes nothing, and the terminal is as it was', async () => {
  const io = terminal();
  const reading = readSecret(io, 'the password');
  io.stdin.write('hunt\u0003');
  await assert.rejects(reading, (error) => hasCode(error, 'cancelled'));
  assert.equal(io.stdin.isRaw, false);
});

test('through a pipe it is all there is but the end of its line', async () => {
  const io = new TestIo();
  io.stdin.end('hunter2 \n');
  assert.equal(await readSecret(io, 'the password'), 'hunter2 ');
  assert.equal(io.stderr.text, '');
});
