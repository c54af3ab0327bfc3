import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gapText } from './gap.ts';

const [from, to] = ['2030-01-31T12:00:00.000Z', '2030-01-31T12:05:00.000Z'];

test('who is told of missing lines gets the command that reads those of the same app, as narrow as what is followed', () => {
  assert.equal(
    gapText(from, to, { app: 'shop' }),
    `lines between ${from} and ${to} may be missing: flynn log -a shop --since ${from} --until ${to} reads what is kept of them`,
  );
  const narrow = gapText(from, to, { app: 'shop', type: 'web', job: 'h1-x', release: 'v3', search: "it's late" });
  assert.ok(
    narrow.includes(
      `flynn log -a shop -t web -j h1-x --release v3 --search 'it'\\''s late' --since ${from} --until ${to} `,
    ),
    narrow,
  );
});
