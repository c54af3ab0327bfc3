/** What engines of other versions answer differently, as they do: 29 keeps its images in containerd, and speaks API 1.52. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { link, mkdir, mkdtempDisposable, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { readProgress } from './images.ts';
import { connectDocker } from './docker.ts';

const id = 'a'.repeat(64);

/** By path and query; what is not there is 404. */
async function engineAnswering(answers: Readonly<Record<string, unknown>>) {
  const folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const path = request.url ?? '';
    asked.push(path);
    const answer = answers[path.replace(/\?.*/, '')];
    response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer ?? { message: `no ${path}` }));
  });
  const socketPath = join(folder.path, 'docker.sock');
  await once(server.listen(socketPath), 'listening');
  const fetchBlob = () => Promise.reject(new FlynnError('not_found', 'no blobs'));
  const engine = connectDocker({ socketPath, cluster: 'test', fetchBlob, scratchDir: folder.path });
  return {
    engine,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}

const inspected = {
  Id: id,
  Name: '/web',
  Created: '2026-11-21T12:00:00Z',
  State: {
    Status: 'running',
    Running: true,
    Pid: 1,
    ExitCode: 0,
    OOMKilled: false,
    Error: '',
    StartedAt: '2026-11-21T12:00:01Z',
    FinishedAt: '0001-01-01T00:00:00Z',
  },
  Image: `sha256:${'b'.repeat(64)}`,
  Mounts: [],
  Config: { Tty: false, Labels: { 'flynn.cluster': 'test' } },
  NetworkSettings: { Networks: { flynn0: { IPAddress: '100.100.0.2' } } },
  Storage: { RootFS: { Snapshot: { Name: 'overlayfs' } } },
  SizeRw: 12_288,
};

test('where the engine does not tell where a container’s files are, it is asked how large they are', async () => {
  await using it = await engineAnswering({ [`/containers/${id}/json`]: inspected });
  assert.deepEqual(await it.engine.diskUse(id), { writableBytes: 12_288, writableFiles: 0, volumeBytes: 0 });
  assert.equal((await it.engine.inspect(id)).address, '100.100.0.2');
  const graph = { ...inspected, GraphDriver: { Name: 'overlayfs', Data: null } };
  await using other = await engineAnswering({ [`/containers/${id}/json`]: graph });
  assert.deepEqual(await other.engine.diskUse(id), { writableBytes: 12_288, writableFiles: 0, volumeBytes: 0 });
});

test('what a container writes to a volume that its image asks for, or to files of the engine’s, is not in its volumes', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-usage-'));
  const kilobytes = new Map([
    ['upper', 8],
    ['nameless', 64],
    ['data', 32],
    ['hosts', 16],
  ]);
  for (const [name, size] of kilobytes) await writeFile(join(folder.path, name), Buffer.alloc(size * 1024, 1));
  const volume = (Name: string, file: string) => ({ Type: 'volume', Name, Source: join(folder.path, file) });
  const info = {
    ...inspected,
    GraphDriver: { Name: 'overlay2', Data: { UpperDir: join(folder.path, 'upper') } },
    Mounts: [volume('flynn-test.data', 'data'), volume('0f'.repeat(32), 'nameless')],
    HostsPath: join(folder.path, 'hosts'),
    ResolvConfPath: join(folder.path, 'gone'),
  };
  await using it = await engineAnswering({ [`/containers/${id}/json`]: info });
  const use = { writableBytes: (8 + 64 + 16) * 1024, writableFiles: 3, volumeBytes: 32 * 1024 };
  assert.deepEqual(await it.engine.diskUse(id), use);
});

test('files count with their bytes: each once, whatever it is called, and the empty ones too', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-usage-'));
  const upper = join(folder.path, "it's upper");
  await mkdir(join(upper, 'below\nof a\tname'), { recursive: true });
  await writeFile(join(upper, 'large'), Buffer.alloc(64 * 1024, 1));
  await link(join(upper, 'large'), join(upper, 'below\nof a\tname', 'the same'));
  for (const name of ['a', 'b', 'c']) await writeFile(join(upper, name), '');
  const info = { ...inspected, GraphDriver: { Name: 'overlay2', Data: { UpperDir: upper } } };
  await using it = await engineAnswering({ [`/containers/${id}/json`]: info });
  const { stdout } = await promisify(execFile)('du', ['-skx', upper]);
  const use = { writableBytes: Number.parseInt(stdout, 10) * 1024, writableFiles: 6, volumeBytes: 0 };
  assert.deepEqual(await it.engine.diskUse(id), use);
});

test('a volume on an engine whose files are elsewhere is of no known size', async () => {
  await using it = await engineAnswering({
    '/volumes/data': { Name: 'data', Mountpoint: '/nowhere/to/be/seen/_data' },
  });
  assert.equal(await it.engine.volumeBytes('data'), undefined);
});

test('no version of the API is asked for: 20.10 ends with 1.41, and 29 begins with 1.44', async () => {
  await using it = await engineAnswering({ '/volumes': { Volumes: null, Warnings: null }, '/images/json': [] });
  assert.deepEqual(await it.engine.listVolumes(), []);
  assert.deepEqual(await it.engine.listImages(), []);
  assert.deepEqual(
    it.asked.map((path) => path.replace(/\?.*/, '')),
    ['/volumes', '/images/json'],
  );
});

test('an image has the names by which it can be removed: its tags, else its digests, and none where it has neither', async () => {
  const row = { Id: 'sha256:1', Labels: null, Created: 1, Size: 1 };
  const [tag, digest] = ['redis:7', `redis@sha256:${id}`];
  await using it = await engineAnswering({
    '/images/json': [
      { ...row, RepoTags: [tag], RepoDigests: [digest] },
      { ...row, RepoTags: null, RepoDigests: [digest] },
      // 20.10 has words for none.
      { ...row, RepoTags: ['<none>:<none>'], RepoDigests: ['<none>@<none>'] },
      { ...row, RepoTags: [], RepoDigests: [] },
    ],
  });
  assert.deepEqual(
    (await it.engine.listImages()).map(({ refs }) => refs),
    [[tag], [digest], [], []],
  );
});

test('a failure within a build or a pull is found, in the newer word for it as well as in the older', async () => {
  const isFailure = (error: unknown): boolean => hasCode(error, 'invalid') && /no space left/.test(error.message);
  const lines = (...all: unknown[]) => Readable.from(all.map((line) => `${JSON.stringify(line)}\r\n`));
  const begun = { stream: 'Step 1/2 : FROM base\n' };
  await assert.rejects(readProgress(lines(begun, { errorDetail: { message: 'no space left' } })), isFailure);
  await assert.rejects(readProgress(lines(begun, { error: 'no space left' })), isFailure);
  assert.equal(await readProgress(lines(begun)), 'Step 1/2 : FROM base\n');
});
