import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Desk } from './testing.ts';

test('the table of commands in the README has every command there is', async () => {
  await using desk = await Desk.open();
  const { stdout } = await desk.run(['--help']);
  const [, listed = ''] = stdout.split('\nCommands:\n');
  const commands = [...listed.matchAll(/^ {2}([a-z]+) /gm)].map(([, name = '']) => name);
  assert.ok(commands.length > 40, listed);
  const readme = readFileSync(join(import.meta.dirname, 'README.md'), 'utf8');
  const rows = readme.split('\n').filter((line) => line.startsWith('| `'));
  const cells = rows.map((row) => row.split(' | ')[0] ?? '');
  const missing = commands.filter((name) => !cells.some((cell) => new RegExp(`\`${name}\\b`).test(cell)));
  assert.deepEqual(missing, []);
});
