import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, mkdtempDisposable, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import Docker from 'dockerode';
import { pack } from 'tar-stream';
import { ownVolumes, ownerOf } from './volume-owner.ts';

const passwords = 'root:x:0:0:root:/root:/bin/bash\nnode:x:1000:1001::/home/node:/bin/bash\n';

void test('a user is a number, or a name that the image knows', () => {
  const cases = [
    ['5000', { uid: 5000, gid: 0 }],
    ['5000:6000', { uid: 5000, gid: 6000 }],
    ['node', { uid: 1000, gid: 1001 }],
    ['node:6000', { uid: 1000, gid: 6000 }],
    ['root', { uid: 0, gid: 0 }],
    ['nod', undefined],
    ['', undefined],
  ] as const;
  for (const [user, owner] of cases) assert.deepEqual(ownerOf(user, passwords), owner, user);
});

const id = 'a'.repeat(64);

/**
 * One container, which runs as a user that its image's /etc/passwd may know; the archive of that is told by `tell`. It has one
 * volume, with nothing in it.
 */
async function engineWith(tell: (response: ServerResponse) => void) {
  const folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const volume = join(folder.path, 'volume');
  await mkdir(volume);
  const inspected = { Mounts: [{ Type: 'volume', RW: true, Source: volume }], Config: { User: 'node' } };
  const server = createServer((request, response) => {
    if (request.url?.startsWith(`/containers/${id}/archive`) === true) return tell(response);
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(inspected));
  });
  const socketPath = join(folder.path, 'docker.sock');
  await once(server.listen(socketPath), 'listening');
  return {
    volume,
    context: { docker: new Docker({ socketPath }), cluster: 'test' },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}

async function archiveOf(content: string): Promise<Buffer> {
  const archive = pack();
  archive.entry({ name: 'passwd' }, content);
  archive.finalize();
  return await buffer(archive);
}

void test('an archive of the users that breaks off is told at once, with why', async (t) => {
  const whole = await archiveOf(passwords);
  const broken = [
    // The connection breaks within the file.
    { bytes: whole.subarray(0, 530), isCut: true, code: 'unavailable', pattern: /does not answer \(reading the users/ },
    // The answer ends as it should, and the archive does not.
    { bytes: whole.subarray(0, 530), isCut: false, code: 'internal', pattern: /reading the users.*end of data/ },
  ] as const;
  for (const { bytes, isCut, code, pattern } of broken) {
    await using engine = await engineWith((response) => {
      response.writeHead(200, { 'content-type': 'application/x-tar' });
      response.write(bytes, () => (isCut ? response.destroy() : response.end()));
    });
    await assert.rejects(
      ownVolumes(engine.context, id, { signal: t.signal }),
      (error) => hasCode(error, code) && pattern.test(String(error)),
    );
  }
  await using engine = await engineWith((response) => response.writeHead(200).end(whole));
  await ownVolumes(engine.context, id, { signal: t.signal });
  assert.equal((await stat(engine.volume)).uid, 1000);
});

/** The first block of an archive with a file of 1 GiB. */
async function headOfEndless(): Promise<Buffer> {
  const archive = pack();
  const head = once(archive, 'data');
  // It is said to be that long, and never written.
  archive.entry({ name: 'passwd', size: 2 ** 30 });
  const [chunk] = (await head) as [Buffer];
  return chunk;
}

void test('users are read as far as they count, and only for a volume that is nobody’s yet', async (t) => {
  const line = 'node:x:1000:1001::/home/node:/bin/bash\n';
  // It goes on for longer than anybody waits: what is not read is not waited for.
  const head = await headOfEndless();
  const places = [
    { before: 1024 ** 2 - line.length, uid: 1000 },
    { before: 1024 ** 2, uid: 0 },
  ];
  for (const { before, uid } of places) {
    let wasCut = false;
    await using engine = await engineWith((response) => {
      response.once('close', () => (wasCut = !response.writableFinished));
      response.writeHead(200).write(head);
      response.write(`${'\n'.repeat(before)}${line}${'\n'.repeat(256 * 1024)}`);
    });
    await ownVolumes(engine.context, id, { signal: t.signal });
    assert.equal((await stat(engine.volume)).uid, uid);
    await waitFor(() => wasCut, { what: 'the archive to be given up', deadlineMs: 60_000 });
  }
  await using engine = await engineWith(() => assert.fail('they were asked for'));
  await writeFile(join(engine.volume, 'kept'), '');
  await ownVolumes(engine.context, id, { signal: t.signal });
  assert.equal((await stat(engine.volume)).uid, 0);
});
