import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readNamed } from './input-file.ts';
import { Desk } from './testing.ts';

const latin1 = Buffer.from('USER=ada\nPASSWORD=p\u00e4ss\n', 'latin1');

test('a file is read with every character it has, U+FFFD and a mark of its order included', async () => {
  await using desk = await Desk.open();
  const text = '\u{feff}A=\u{fffd} é漢 🚀\r\n';
  await writeFile(join(desk.home, 'file'), text);
  assert.equal(await readNamed(desk.io(), 'file'), text);
  const io = desk.io();
  io.stdin.end(text);
  assert.equal(await readNamed(io, '-'), text);
});

test('bytes that are not UTF-8 are refused with the file and the line, and nothing is taken for them', async () => {
  await using desk = await Desk.open();
  await writeFile(join(desk.home, 'latin1.env'), latin1);
  const refusal = { code: 'invalid', message: /^latin1\.env is not UTF-8 in line 2\n {2}convert it/ };
  await assert.rejects(readNamed(desk.io(), 'latin1.env'), refusal);
  const io = desk.io();
  io.stdin.end(latin1);
  await assert.rejects(readNamed(io, '-'), { code: 'invalid', message: /^standard input is not UTF-8 in line 2\n/ });
  await writeFile(join(desk.home, 'cut'), Buffer.from('é').subarray(0, 1));
  await assert.rejects(readNamed(desk.io(), 'cut'), { code: 'invalid', message: /^cut is not UTF-8 in line 1\n/ });
});
