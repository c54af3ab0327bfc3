import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { type ErrorCode, hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { installationHandlers, installationRoutes } from './installation.ts';
import { writeRefresh } from './refresh-record.ts';
import { emptyScratch, scratchFolder } from '../disk/scratch.ts';

const isCode = (code: ErrorCode, pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);

const image = (...refs: string[]) => ({ id: refs.join(), refs, labels: {}, createdAtMs: 0, sizeBytes: 1 });

/** A host installed in a folder, whose installer and next version are scripts that tell what they were asked. */
async function startHost({
  isInstalled = true,
  installer = 'echo "$*" >"$FOLDER/asked"; cat "$2" >"$FOLDER/got"',
} = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-installation-'));
  const write = async (path: string, text: string): Promise<void> => {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text.replaceAll('$FOLDER', folder), { mode: 0o755 });
  };
  await write('opt/1.0.0/bootstrap/install', `#!/bin/sh\n${installer}\n`);
  await write(
    'opt/1.1.0/bin/flynn-host',
    '#!/bin/sh\necho "$* $FLYNN_STATE_DIR"\nwhile [ ! -e "$FOLDER/go" ]; do sleep 0.02; done\n',
  );
  const stateDir = join(folder, 'state');
  await mkdir(stateDir);
  const server = await startServer({
    name: 'test',
    handlers: installationHandlers({
      installation: isInstalled ? join(folder, 'opt/1.0.0') : undefined,
      stateDir,
      dockerSocket: '/none',
      engine: { listImages: async () => [image('flynn/router:1'), image('app:1', 'app:2')] },
      engineDir: '/dev/shm',
      log: silentLogger(),
    }),
    host: '127.0.0.1',
    port: 0,
    log: silentLogger(),
    signal: new AbortController().signal,
  });
  const client = new HttpClient({ baseUrl: `http://127.0.0.1:${server.port}`, name: 'the agent' });
  return {
    folder,
    stateDir,
    write,
    read: (path: string) => readFileSync(join(folder, path), 'utf8'),
    put: (content: string, sha256 = createHash('sha256').update(content).digest('hex')) =>
      client.call(installationRoutes.put, { query: { sha256 }, body: Readable.from([Buffer.from(content)]) }),
    /** As `put`, by somebody who gives up when the signal aborts. */
    putUntil: (signal: AbortSignal) =>
      client.call(
        installationRoutes.put,
        {
          query: { sha256: createHash('sha256').update('a bundle').digest('hex') },
          body: Readable.from([Buffer.from('a bundle')]),
        },
        { signal },
      ),
    room: () => client.call(installationRoutes.room, {}),
    state: (version: string) => client.call(installationRoutes.state, { params: { version } }),
    use: (version: string) => client.call(installationRoutes.use, { params: { version } }),
    async [Symbol.asyncDispose]() {
      await client.close();
      await server.close();
      await rm(folder, { recursive: true });
    },
  };
}

test('a bundle that is what it was announced as is handed to the installer, beside what is in use', async () => {
  await using host = await startHost();
  await host.put('a bundle');
  assert.equal(host.read('got'), 'a bundle');
  assert.match(host.read('asked'), new RegExp(`--prefix ${host.folder}/opt --keep-current`));
  assert.deepEqual(await readdir(join(host.stateDir, 'tmp')), [], 'nothing of it is left');
});

test('another file than announced, and what the installer refuses, are refused with why', async () => {
  await using host = await startHost({ installer: 'echo no room >&2; exit 1' });
  await assert.rejects(host.put('a bundle', '0'.repeat(64)), isCode('invalid', /not 0{64}/));
  await assert.rejects(host.put('a bundle'), isCode('invalid', /could not be installed:\nno room/));
  assert.deepEqual(await readdir(join(host.stateDir, 'tmp')), []);
});

test('a host tells what room it has, on which disks, and what of flynn is there', async () => {
  await using host = await startHost();
  await host.write('opt/1.1.0/SHA256SUMS', 'what is in it');
  const { programs, bundles, engine, versions, digests, images } = await host.room();
  assert.deepEqual(versions, ['1.1.0'], 'a folder without programs is no version');
  assert.deepEqual(digests, { '1.1.0': createHash('sha256').update('what is in it').digest('hex') });
  assert.deepEqual(images, ['flynn/router:1', 'app:1', 'app:2']);
  assert.deepEqual([programs.path, bundles.path, engine.path], [join(host.folder, 'opt'), host.stateDir, '/dev/shm']);
  assert.equal(programs.device, bundles.device);
  assert.notEqual(programs.device, engine.device, 'another disk');
  assert.ok(programs.freeBytes > 0 && engine.freeBytes > 0);
});

test('an installer ends with all it started when whoever sent the bundle gives up', async () => {
  await using host = await startHost({ installer: `sh -c 'echo $$ >"$FOLDER/unpacking"; exec sleep 600'` });
  const ending = new AbortController();
  const put = assert.rejects(host.putUntil(ending.signal), (error) => hasCode(error, 'cancelled'));
  const pid = await waitFor(
    () => existsSync(join(host.folder, 'unpacking')) && (Number(host.read('unpacking')) || false),
    {
      what: 'the installer',
      deadlineMs: 30_000,
    },
  );
  ending.abort();
  await put;
  await waitFor(() => !existsSync(`/proc/${pid}`), { what: 'the end of what it started', deadlineMs: 30_000 });
  await waitFor(async () => (await readdir(join(host.stateDir, 'tmp'))).length === 0, {
    what: 'its folder to be gone',
    deadlineMs: 30_000,
  });
});

test('a bundle that an agent left behind when its power went is gone once the next one starts', async () => {
  await using host = await startHost();
  await host.put('a bundle');
  const left = await scratchFolder(host.stateDir, 'bundle');
  await emptyScratch(host.stateDir);
  assert.equal(existsSync(left), false);
  await emptyScratch(host.stateDir);
  await host.put('a bundle');
});

test('the program of a version takes over, one at a time, and outlives the answer', async () => {
  await using host = await startHost();
  await assert.rejects(host.use('1.2.0'), isCode('not_found', /1\.2\.0 is not installed/));
  await assert.rejects(host.use('..x'), isCode('not_found', /is not installed/));
  assert.deepEqual(await host.state('1.1.0'), { state: 'none' });
  await host.use('1.1.0');
  assert.deepEqual(await host.state('1.1.0'), { state: 'under way' });
  await assert.rejects(host.use('1.1.0'), isCode('conflict', /is becoming one of version 1\.1\.0/));
  const log = join(host.stateDir, 'update.log');
  await waitFor(() => existsSync(log) && readFileSync(log, 'utf8') === `refresh ${host.stateDir}\n`, {
    what: 'the program to run',
    deadlineMs: 30_000,
  });
  await writeFile(join(host.folder, 'go'), '');
  await waitFor(async () => (await host.state('1.1.0')).state === 'failed', {
    what: 'its end without a word to be known',
    deadlineMs: 30_000,
  });
  assert.match((await host.state('1.1.0')).why ?? '', /ended with 0 before it began; .*update\.log/);
  // One that ended without replacing anybody may be tried again.
  await waitFor(
    async () =>
      host.use('1.1.0').then(
        () => true,
        () => false,
      ),
    { what: 'another try', deadlineMs: 30_000 },
  );
  await waitFor(() => readFileSync(log, 'utf8').split('\n').length === 3, {
    what: 'the second run',
    deadlineMs: 30_000,
  });
});

test('what came of it is told by whichever agent is there then, and one that another agent started is waited for', async () => {
  await using host = await startHost();
  const record = { version: '1.1.0', pid: process.pid, hasEnded: true };
  await writeRefresh(host.stateDir, { ...record, error: 'the agent does not come up' });
  assert.deepEqual(await host.state('1.1.0'), { state: 'failed', why: 'the agent does not come up' });
  assert.deepEqual(await host.state('1.0.0'), { state: 'none' });
  await writeRefresh(host.stateDir, record);
  assert.deepEqual(await host.state('1.1.0'), { state: 'done' });

  const program = spawn('sh', ['-c', 'echo ready; read _', 'sh', 'refresh'], { stdio: ['pipe', 'pipe', 'ignore'] });
  try {
    await once(program.stdout, 'data');
    await writeRefresh(host.stateDir, { version: '1.0.0', pid: program.pid ?? 0, hasEnded: false });
    await assert.rejects(host.use('1.1.0'), isCode('conflict', /is becoming one of version 1\.0\.0/));
    // So it is while one that failed is being undone, whose record this is.
    assert.deepEqual(await host.state('1.1.0'), { state: 'none', becoming: '1.0.0' });
    assert.deepEqual(await host.state('1.0.0'), { state: 'under way' });
    const gone = once(program, 'close');
    program.kill('SIGKILL');
    await gone;
    assert.deepEqual(await host.state('1.0.0'), { state: 'failed', why: 'it was broken off' });
    const { state, why } = await host.state('1.1.0');
    assert.deepEqual([state, /of version 1\.0\.0.*broken off/.test(why ?? '')], ['failed', true], 'it may be either');
  } finally {
    program.kill('SIGKILL');
  }
});

test('a host that runs from its sources is not updated from a bundle', async () => {
  await using host = await startHost({ isInstalled: false });
  await assert.rejects(host.put('a bundle'), isCode('conflict', /npm run up/));
  await assert.rejects(host.room(), isCode('conflict', /npm run up/));
  await assert.rejects(host.use('1.1.0'), isCode('conflict', /npm run up/));
});
