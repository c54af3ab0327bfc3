import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lackingText } from './lacking.ts';

const page = '; without a web page, for an app of somebody is called dashboard';
const text = (outcome: 'failed' | 'left out' | 'created', isThere: boolean) =>
  lackingText(
    new Map([
      ['router', 'updated'],
      ['dashboard', outcome],
    ]),
    page,
    async () => isThere,
  );

test('of a part that failed it is told where to look, as far as it came, and nothing of what somebody might have', async () => {
  assert.match(await text('failed', true), /^; dashboard could not be deployed: "flynn -a dashboard log" [^;]*$/);
  const never = await text('failed', false);
  assert.match(never, /^; dashboard could not be created: what is told of it above says why[^;]*$/);
  assert.doesNotMatch(never, /log/);
});

test('of all else that is lacking what is said of the web page is all', async () => {
  assert.equal(await text('left out', false), page);
  assert.equal(await lackingText(new Map([['dashboard', 'created']]), '', async () => true), '');
});
