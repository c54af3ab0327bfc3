import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { test } from 'node:test';
import { openDeskWithController } from '../testing.ts';

test('`notification add`, `test`, `log` and `remove`', async (t) => {
  await using env = await openDeskWithController();
  const { desk } = env;
  const received: string[] = [];
  const answers = [204, 404];
  const server = createServer((request, response) => {
    request.setEncoding('utf8').on('data', (chunk: string) => received.push(chunk));
    request.on('end', () => response.writeHead(answers.shift() ?? 204).end(answers.length === 0 ? 'who?' : ''));
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/secret-path`;

  const refused = await desk.run(['notification', 'add', 'ops', url, '--all']);
  assert.match(refused.stderr, /127\.0\.0\.1 is inside the cluster.*--inside/);
  const added = await desk.run(['notification', 'add', 'ops', url, '--all', '--inside', '--on', 'host,backup']);
  assert.equal(added.code, 0, added.stderr);
  assert.match(
    added.stdout,
    /^ops: http:\/\/127\.0\.0\.1:\d+\/\*\*\* is told of the cluster and all apps from now on: host, backup\n/,
  );
  assert.match(added.stdout, /signed with whsec_[\w+/=]+: this is shown once/);
  const sent = await desk.run(['notification', 'test', 'ops']);
  assert.match(sent.stdout, /^ops has it: 204 \(\d+ ms\)\n$/);
  assert.match(received.join(''), /"type":"notification\.test"/);
  const failed = await desk.run(['notification', 'test', 'ops']);
  assert.deepEqual([failed.code, /did not take it: 404 who\?/.test(failed.stdout)], [1, true]);
  const { stdout } = await desk.run(['notification', 'log', 'ops']);
  assert.match(
    stdout,
    /^AT +EVENT +OUTCOME +TRIED +ANSWER +WHAT\n\S+ +notification\.test +refused +1 +404 who\? +a test\n/,
  );
  for (const words of [['notification'], ['notification', 'list']]) {
    const listed = await desk.run(words);
    assert.match(listed.stdout, /\nops +\(cluster\) +http:\/\/127\.0\.0\.1:\d+\/\*\*\* +json +host,backup +0 +ok\n$/);
    assert.doesNotMatch(listed.stdout, /secret-path|whsec_/);
  }
  assert.equal((await desk.run(['notification', 'remove', 'ops'])).stdout, 'notification ops removed\n');
  assert.match((await desk.run(['notification', 'remove', 'ops'])).stderr, /there is no notification "ops"; list them/);
});

test('what is asked for and is none is told with what there is', async () => {
  await using env = await openDeskWithController();
  const add = async (...args: string[]) =>
    env.desk.run(['notification', 'add', 'ops', 'https://ops.example.com', ...args]);
  const cases: readonly [string[], number, RegExp][] = [
    [['--all', '-a', 'x'], 2, /either -a APP or --all/],
    [['--all', '--on', 'deploymnt'], 2, /"deploymnt" is none of .*did you mean deployment\?/],
    [['--all', '--format', 'teams'], 2, /json, slack, discord, ntfy/],
    [['--all', '--every', '0'], 2, /--every/],
    [['-a', 'nosuch'], 1, /no app "nosuch"/],
    [[], 1, /which app\?[^]*name it with -a NAME, say --all for all of them, or/],
  ];
  for (const [args, code, why] of cases) {
    const said = await add(...args);
    assert.equal(said.code, code, args.join(' '));
    assert.match(said.stderr, why);
  }
  const wrong = await env.desk.run(['notification', 'add', 'ops', 'ftp://x', '--all']);
  assert.match(wrong.stderr, /url: "ftp:\/\/x" is no receiver of notifications: write https:\/\/HOST\/PATH/);
});
