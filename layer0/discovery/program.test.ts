import { silentLogger } from '@flynn/kit/log';
import { startServer } from '@flynn/kit/http-server';
import { waitFor } from '@flynn/kit/retry';
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { createMemoryRegistry } from './memory-registry.ts';
import { runCli } from './program.ts';
import { discoveryHandlers } from './server.ts';

const log = silentLogger();

async function start() {
  const stop = new AbortController();
  const registry = createMemoryRegistry({ log });
  const handlers = discoveryHandlers(registry, { signal: stop.signal });
  const server = await startServer({ handlers, log, host: '127.0.0.1', port: 0, name: 'discovery' });
  const listeners = new Map<string, Set<() => void>>();
  const begin = (...argv: string[]) => {
    const stdout = new PassThrough();
    const stderr = new PassThrough();
    const said = { out: '', err: '' };
    stdout.on('data', (chunk) => (said.out += String(chunk)));
    stderr.on('data', (chunk) => (said.err += String(chunk)));
    const ended = runCli(['--url', server.url, ...argv], {
      stdout,
      stderr,
      env: {},
      hostname: 'here',
      log,
      onSignal(signal, listener) {
        const group = listeners.get(signal) ?? new Set();
        listeners.set(signal, group.add(listener));
        return () => group.delete(listener);
      },
    });
    return { said, ended };
  };
  return {
    registry,
    begin,
    async run(...argv: string[]) {
      const { said, ended } = begin(...argv);
      return { code: await ended, ...said };
    },
    signal: (name: string) => [...(listeners.get(name) ?? [])].forEach((listener) => listener()),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await server.close();
      await registry[Symbol.asyncDispose]();
    },
  };
}

test('services, instances and leader are lines for people and for awk', async () => {
  await using cli = await start();
  await cli.registry.register({
    service: 'web',
    id: 'b',
    address: '10.0.0.2:80',
    attributes: { zone: 'x', role: 'y' },
  });
  await cli.registry.register({ service: 'web', id: 'a', address: '10.0.0.1:80' });
  assert.equal((await cli.run('services')).out, 'web  2\n');
  assert.equal((await cli.run('instances', 'web')).out, 'b  10.0.0.2:80  zone=x,role=y\na  10.0.0.1:80  -\n');
  const found = await cli.run('instances', 'web', '--attr', 'zone=x', '--json');
  assert.equal(JSON.parse(found.out).id, 'b');
  assert.equal((await cli.run('leader', 'web')).out, 'b  10.0.0.2:80  zone=x,role=y\n');
  assert.equal((await cli.run('leader', 'web', '--choose', 'a')).out, 'a  10.0.0.1:80  -\n');
  assert.equal((await cli.run('leader', 'web', '--oldest')).out, 'b  10.0.0.2:80  zone=x,role=y\n');
  assert.deepEqual(await cli.run('leader', 'db'), { code: 1, out: '', err: 'flynn-discovery: nobody leads db\n' });
});

test('meta is read and written, and a compare that fails is an error', async () => {
  await using cli = await start();
  assert.equal((await cli.run('meta', 'db')).code, 1);
  const made = await cli.run('meta', 'db', '{"primary":"a"}', '--version', '0');
  const [version = ''] = made.out.split('  ');
  assert.equal(made.out, `${version}  {"primary":"a"}\n`);
  assert.match((await cli.run('meta', 'db', '1', '--version', '0')).err, /exists already, at version/);
  assert.equal((await cli.run('meta', 'db', '2', '--version', version)).code, 0);
  assert.match((await cli.run('meta', 'db', '{oops')).err, /not JSON/);
  assert.match((await cli.run('meta', 'db', '3', '--remove')).err, /--remove stands alone/);
  assert.deepEqual(await cli.run('meta', 'db', '--remove'), { code: 0, out: '', err: '' });
  assert.match((await cli.run('meta', 'db')).err, /nothing was written/);
  assert.equal((await cli.run('meta', 'db', '--remove')).code, 0);
});

test('wrong usage is told apart from what went wrong', async () => {
  await using cli = await start();
  assert.equal((await cli.run('instances')).code, 2);
  assert.equal((await cli.run('render', 'a', 'b', '--wait', 'long')).code, 2);
  assert.equal((await cli.run('register', 'web', 'h:1', '--ttl', '1', '--', 'true')).code, 2);
  const nowhere = await cli.run('--url', 'http://127.0.0.1:1', 'services');
  assert.deepEqual([nowhere.code, /cannot reach service discovery/.test(nowhere.err)], [1, true]);
  const bad = await cli.run('register', 'web', 'nowhere', '--', 'true');
  assert.deepEqual([bad.code, /host:port/.test(bad.err)], [1, true]);
});

test('watch tells the set and every change until it is stopped', async () => {
  await using cli = await start();
  const { said, ended } = cli.begin('watch', 'web');
  await waitFor(() => said.out.includes('current'), { what: 'the set', deadlineMs: 30_000 });
  await cli.registry.register({ service: 'web', id: 'a', address: 'h:1' });
  await waitFor(() => said.out.includes('leader'), { what: 'a change', deadlineMs: 30_000 });
  cli.signal('SIGINT');
  assert.equal(await ended, 0);
  const events = said.out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).event);
  assert.deepEqual(events, ['current', 'up', 'leader']);
});

test('a program is announced while it runs, and its exit code is passed on', async () => {
  await using cli = await start();
  const { ended } = cli.begin(
    'register',
    'web',
    '10.0.0.1:80',
    '--attr',
    'zone=x',
    '--',
    'sh',
    '-c',
    'sleep 0.5; exit 7',
  );
  const [instance] = await waitFor(() => cli.registry.instances('web').length > 0 && cli.registry.instances('web'), {
    what: 'it',
    deadlineMs: 30_000,
  });
  assert.deepEqual([instance?.id, instance?.attributes], ['here-10.0.0.1-80', { zone: 'x' }]);
  assert.equal(await ended, 7);
  assert.deepEqual(cli.registry.instances('web'), []);
});

test('a program whose name an app has taken goes on, and it is said that it is not announced any more', async () => {
  await using cli = await start();
  const { said, ended } = cli.begin('register', 'web', '10.0.0.1:80', '--ttl', '3', '--', 'sleep', '60');
  await waitFor(() => cli.registry.instances('web').length === 1, { what: 'it', deadlineMs: 30_000 });
  cli.registry.vouchFor(['web']);
  await waitFor(() => said.err !== '', { what: 'word of it', deadlineMs: 30_000 });
  assert.match(said.err, /web\/here-10.0.0.1-80 is not announced: web is a service of an app/);
  await waitFor(() => cli.registry.instances('web').length === 0, { what: 'its end', deadlineMs: 30_000 });
  cli.signal('SIGTERM');
  assert.equal(await ended, 128 + 15);
});

test('who stops the program takes it back first, and gives others time to notice', async () => {
  await using cli = await start();
  const dir = await mkdtemp(path.join(tmpdir(), 'flynn-register-'));
  try {
    const seen = path.join(dir, 'ended');
    const ready = path.join(dir, 'ready');
    const script = `trap "date +%s%N > ${seen}; exit 0" TERM; echo > ${ready}; while :; do sleep 0.02; done`;
    const { ended } = cli.begin('register', 'web', '10.0.0.1:80', '--drain', '1000', '--', 'sh', '-c', script);
    await waitFor(() => cli.registry.instances('web').length === 1, { what: 'it', deadlineMs: 30_000 });
    await waitFor(() => existsSync(ready), { what: 'the program to heed signals', deadlineMs: 30_000 });
    let goneMs = 0;
    cli.registry.onChange(() => void (goneMs ||= Date.now()));
    cli.signal('SIGTERM');
    assert.equal(await ended, 0);
    const endedMs = Number(await readFile(seen, 'utf8')) / 1e6;
    assert.ok(goneMs > 0 && endedMs - goneMs > 500, `${endedMs - goneMs} ms between`);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});

test('a file is rendered once on request', async () => {
  await using cli = await start();
  const dir = await mkdtemp(path.join(tmpdir(), 'flynn-render-'));
  try {
    const [template, out] = [path.join(dir, 't'), path.join(dir, 'out')];
    await writeFile(template, '{{#each (instances "web")}}{{address}}{{/each}}');
    await cli.registry.register({ service: 'web', id: 'a', address: 'h:1' });
    assert.deepEqual(await cli.run('render', template, out, '--once'), { code: 0, out: '', err: '' });
    assert.equal(await readFile(out, 'utf8'), 'h:1');
    assert.match((await cli.run('render', `${template}x`, out, '--once')).err, /cannot be read/);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});
