import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { handle } from '@flynn/kit/http-server';
import { startLoopback } from '@flynn/kit/loopback';
import { routes } from '@flynn/log-aggregator/api';
import type { DrainStatus } from '@flynn/log-aggregator/api';
import { openDeskWithController } from '../testing.ts';

test('`drain add`, `drain` and `drain remove`', async () => {
  let id = '';
  let more: Pick<DrainStatus, 'gaveUp' | 'damaged'> = {};
  const status = { sent: 3, failed: 0, skipped: 1, waiting: 2 };
  await using aggregator = await startLoopback([handle(routes.drains, async () => [{ id, ...status, ...more }])]);
  await using env = await openDeskWithController({ logAggregatorUrl: aggregator.server.url });
  const { desk } = env;
  await desk.run(['create', 'hello']);
  const added = await desk.run(['drain', 'add', '-a', 'hello', 'https://me:hunter2@logs.example.com/in']);
  assert.equal(added.code, 0);
  assert.match(
    added.stdout,
    /^lines of hello go to https:\/\/\*\*\*@logs\.example\.com\/in from now on \(drain (\w+)\)\n$/,
  );
  id = /drain (\w+)\)/.exec(added.stdout)?.[1] ?? '';
  for (const words of [['drain'], ['drain', 'list']]) {
    const { stdout } = await desk.run(words);
    const [header, row] = stdout.trimEnd().split('\n');
    assert.match(header ?? '', /^DRAIN +APP +URL +SENT +FAILED +SKIPPED +WAITING +STATE$/);
    assert.match(row ?? '', new RegExp(`^${id} +hello +https://\\*\\*\\*@logs.example.com/in +3 +0 +1 +2 +ok$`));
  }
  more = { gaveUp: { count: 4, at: new Date().toISOString(), why: 'https://logs.example.com answered 400' } };
  assert.match((await desk.run(['drain'])).stdout, / gave up 4 lines: https:\/\/logs\.example\.com answered 400\n$/);
  more = { damaged: { count: 1, at: new Date().toISOString(), why: 'the disk did not keep it' } };
  assert.match((await desk.run(['drain'])).stdout, / lost 1 line: the disk did not keep it\n$/);
  assert.equal((await desk.run(['drain', 'remove', id])).stdout, `drain ${id} removed\n`);
  const again = await desk.run(['drain', 'remove', id]);
  assert.equal(again.code, 1);
  assert.match(again.stderr, /there is no drain .*list them with: flynn drain/);
});

test('a drain of all apps, and one behind an authority of one’s own', async () => {
  await using env = await openDeskWithController();
  const { desk } = env;
  assert.match(
    (await desk.run(['drain', 'add', '--all', 'syslog+tcp://logs.example.com:514'])).stdout,
    /lines of all apps/,
  );
  const { stdout } = await desk.run(['drain', 'list']);
  assert.match(stdout, /\(all\) +syslog\+tcp:\/\/logs\.example\.com:514 +- +- +- +- +unknown/);
  await writeFile(join(desk.home, 'ca.pem'), 'nonsense');
  const wrong = await desk.run(['drain', 'add', '--all', '--ca', 'ca.pem', 'syslog+tls://logs.example.com']);
  assert.match(wrong.stderr, /that is no certificate/);
});

test('what cannot be a drain is refused with what to write instead', async () => {
  await using env = await openDeskWithController();
  const { code, stderr } = await env.desk.run(['drain', 'add', '--all', 'syslog://logs.example.com']);
  assert.equal(code, 1);
  assert.match(stderr, /syslog is not known; write syslog\+tcp:\/\/HOST:PORT, syslog\+tls:\/\/HOST:PORT or https/);
  assert.equal((await env.desk.run(['drain', 'add', '--all', '-a', 'x', 'https://logs.example.com'])).code, 2);
});
