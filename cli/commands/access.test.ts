import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { Desk, openDeskWithController } from '../testing.ts';

/** What the line on the screen is there for: another person's machine runs it. */
async function accept(desk: Desk, stdout: string): Promise<void> {
  const line = /flynn (cluster add \S+ \S+ \S+)/.exec(stdout)?.[1] ?? '';
  const added = await desk.run(line.split(' '));
  assert.equal(added.code, 0, added.stderr);
}

test('what somebody without a role has asked for does not speak to the terminal of whoever reads the audit trail', async () => {
  await using env = await openDeskWithController();
  await using mallory = await Desk.open();
  await accept(mallory, (await env.desk.run(['user', 'add', 'mallory'])).stdout);
  const refused = await mallory.run(['user', 'remove', 'x\u001b[1A\u001b[2K\u0007\u009b']);
  assert.equal(refused.code, 1);
  assert.doesNotMatch(refused.stderr, /[^\P{Cc}\n]/u);
  const { stdout } = await env.desk.run(['audit']);
  assert.ok(stdout.includes(String.raw`DELETE /users/x\u001b[1A\u001b[2K\u0007\u009b`), stdout);
  assert.doesNotMatch(stdout, /[^\P{Cc}\n]/u);
});

test('a user is added, gets to know the cluster with one line, and may do what their role allows', async () => {
  await using env = await openDeskWithController();
  await using ann = await Desk.open();
  for (const name of ['shop', 'blog']) await env.desk.run(['create', name]);
  const added = await env.desk.run(['user', 'add', 'ann']);
  assert.equal(added.code, 0, added.stderr);
  await accept(ann, added.stdout);
  assert.match((await ann.run(['whoami'])).stdout, /^ann\nCluster: {2}none\nToken: {4}\w{12}, until 20/);
  assert.equal((await ann.run(['apps'])).stdout.trim(), 'NAME  ID  CREATED  PLATFORM  DATASTORE');
  const hidden = await ann.run(['info', '-a', 'shop']);
  assert.deepEqual([hidden.code, hidden.stderr], [1, 'flynn: there is no app "shop"; list them with: flynn apps\n']);

  await env.desk.run(['access', 'grant', 'ann', 'viewer', '-a', 'shop']);
  assert.equal((await ann.run(['info', '-a', 'shop'])).code, 0);
  const refused = await ann.run(['route', 'add', 'http', 'shop.example.com', '-a', 'shop']);
  assert.equal(refused.code, 1);
  assert.match(
    refused.stderr,
    /needs the role developer, and ann is viewer on shop; an admin can change that: flynn access grant/,
  );

  await env.desk.run(['team', 'create', 'ops']);
  await env.desk.run(['team', 'add', 'ops', 'ann']);
  const granted = await env.desk.run(['access', 'grant', 'team:ops', 'developer', '-a', 'shop']);
  assert.equal(granted.stdout, 'team:ops is developer on shop\n');
  assert.equal((await ann.run(['route', 'add', 'http', 'shop.example.com', '-a', 'shop'])).code, 0);
  assert.match((await ann.run(['whoami'])).stdout, /Teams: {4}ops\nApp: {6}shop \(developer\)/);
  assert.match(
    (await env.desk.run(['access', 'list', '-a', 'shop'])).stdout,
    /team +ops +developer[^]*user +ann +viewer/,
  );

  await env.desk.run(['user', 'role', 'ann', 'developer']);
  assert.match((await env.desk.run(['user', 'list'])).stdout, /ann +developer +ops/);
  assert.match((await env.desk.run(['token', 'list'])).stdout, /first token +ann +as ann/);
  const onApp = ['op', 'access', 'route', 'release', 'review'].map((name) => [name, '-a', 'shop']);
  for (const words of [['user'], ['team'], ['token'], ['eval'], ['key'], ['cluster'], ...onApp]) {
    const [name = '', ...rest] = words;
    const [bare, listed] = [
      await env.desk.run([...words, '--json']),
      await env.desk.run([name, 'list', ...rest, '--json']),
    ];
    assert.deepEqual(JSON.parse(bare.stdout), JSON.parse(listed.stdout), `"flynn ${name}" lists`);
  }
  assert.match((await ann.run(['apps'])).stdout, /blog/);
  await env.desk.run(['user', 'role', 'ann', 'none']);
  await env.desk.run(['access', 'revoke', 'team:ops', '-a', 'shop']);
  const removed = await env.desk.run(['user', 'remove', 'ann']);
  assert.equal(removed.stdout, 'ann removed, with 1 token and 0 SSH keys\n');
  assert.match((await ann.run(['apps'])).stderr, /does not know this key/);
});

test('a token is made, listed without what opens, used within its scope, and taken back', async () => {
  await using env = await openDeskWithController();
  await using ci = await Desk.open();
  await env.desk.run(['create', 'shop']);
  await env.desk.run(['create', 'blog']);
  const made = await env.desk.run(['token', 'create', 'ci', '--scope', 'viewer', '--only', 'shop', '--expires', '12h']);
  const token = made.stdout.split('\n')[0] ?? '';
  assert.match(token, /^flynn_[a-z0-9]{12}_/);
  assert.match(made.stdout, /shown only now, and good until 20\d\d-/);
  await accept(ci, made.stdout);
  assert.match((await ci.run(['apps'])).stdout, /shop/);
  assert.doesNotMatch((await ci.run(['apps'])).stdout, /blog/);
  assert.match((await ci.run(['delete', '-y', '-a', 'shop'])).stderr, /the token's scope is viewer/);
  const listed = await env.desk.run(['token', 'list']);
  assert.match(listed.stdout, /ci +- +viewer +shop/);
  assert.ok(!listed.stdout.includes(token.slice(20)));
  assert.equal((await env.desk.run(['token', 'revoke', token])).stdout, 'taken back\n');
  assert.match((await ci.run(['apps'])).stderr, /does not know this key/);
  const short = await env.desk.run(['token', 'create', 'short', '--expires', '1s']);
  const words = /flynn cluster add \S+ (\S+ \S+)/.exec(short.stdout)?.[1]?.split(' ') ?? [];
  let names = 0;
  const refusal = async () => {
    names += 1;
    const { code, stderr } = await ci.run(['cluster', 'add', `short${names}`, ...words]);
    return code === 0 ? undefined : stderr;
  };
  const told = await waitFor(refusal, { what: 'the token to expire', deadlineMs: 60_000, intervalMs: 100 });
  assert.match(told, /expired at .*flynn token create.*\n {2}"flynn cluster add NAME URL KEY" sets another/);
  for (const argv of [
    ['--scope', 'king'],
    ['--expires', 'soon'],
  ]) {
    assert.equal((await env.desk.run(['token', 'create', 'x', ...argv])).code, 2);
  }
});

test('an SSH key is added to who calls', async () => {
  await using env = await openDeskWithController();
  await using ann = await Desk.open();
  await accept(ann, (await env.desk.run(['user', 'add', 'ann', '--role', 'developer'])).stdout);
  const input = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ann@desk';
  assert.equal((await ann.run(['key', 'add', '-'], { input })).code, 0);
  const refused = await env.desk.run(['key', 'add', '-'], { input });
  assert.match(refused.stderr, /somebody else's/);
  assert.match((await env.desk.run(['key'])).stdout, /SHA256:\S+ +ann +\S+ +ann@desk/);
  await using bob = await Desk.open();
  await accept(bob, (await env.desk.run(['user', 'add', 'bob'])).stdout);
  assert.doesNotMatch((await bob.run(['key'])).stdout, /ann@desk/);
});

test('the audit trail tells who did what, as text and as JSON', async () => {
  await using env = await openDeskWithController();
  await using ann = await Desk.open();
  await accept(ann, (await env.desk.run(['user', 'add', 'ann', '--role', 'developer'])).stdout);
  await ann.run(['create', 'shop']);
  await env.desk.run(['create', 'blog']);
  await env.controller.web.trail.flushed();
  const text = await env.desk.run(['audit', '-a', 'shop', '--since', '1h']);
  assert.match(text.stdout, /ann +shop +POST \/apps \(create app, create route, create grant\) +done +127\.0\.0\.1/);
  assert.doesNotMatch(text.stdout, /blog/);
  const json = JSON.parse((await env.desk.run(['audit', '--user', 'ann', '--json'])).stdout) as { action: string }[];
  assert.deepEqual(
    json.map(({ action }) => action),
    ['POST /apps'],
  );
  assert.equal((await env.desk.run(['audit', '-n', '0'])).code, 2);
  const known = await readFile(join(ann.configDirectory, 'clusters.json'), 'utf8');
  assert.ok(
    !(await env.desk.run(['audit', '--json'])).stdout.includes(/flynn_\w{12}_([\w-]{43})/.exec(known)?.[1] ?? 'none'),
  );
});

test('a token is taken back by its id or by itself, and what is neither is not sent', async () => {
  await using env = await openDeskWithController();
  const [token = ''] = (await env.desk.run(['token', 'create', 'ci'])).stdout.split('\n');
  const pasted = await env.desk.run(['token', 'revoke', 'A-root-key-that-was-pasted']);
  assert.equal(pasted.code, 2, pasted.stderr);
  assert.match(pasted.stderr, /"flynn token list" shows the ids/);
  const revoked = await env.desk.run(['token', 'revoke', token, '--json']);
  assert.deepEqual(JSON.parse(revoked.stdout), { revoked: token.split('_')[1] });
});
