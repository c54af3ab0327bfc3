import assert from 'node:assert/strict';
import { mkdtemp, readFile, readlink, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { type Header, pack } from 'tar-stream';
import { unpackSource } from './unpack.ts';

async function unpacked(
  entries: [Partial<Header> & { name: string }, string?][],
): Promise<{ dir: string } & AsyncDisposable> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-unpack-'));
  const archive = pack();
  for (const [header, text] of entries) archive.entry(header, text ?? '');
  archive.finalize();
  const dispose = () => rm(dir, { recursive: true, force: true });
  try {
    await unpackSource(Readable.from(archive), join(dir, 'app'), { signal: AbortSignal.timeout(60_000) });
  } catch (error) {
    await dispose();
    throw error;
  }
  return { dir: join(dir, 'app'), [Symbol.asyncDispose]: dispose };
}

test('files, modes, folders and links come out as they were', async () => {
  await using result = await unpacked([
    [{ name: 'bin/', type: 'directory' }],
    [{ name: 'bin/run', mode: 0o775 }, 'run'],
    [{ name: './README', mode: 0o664 }, 'read'],
    [{ name: 'link', type: 'symlink', linkname: 'bin/run' }],
  ]);
  assert.equal(await readFile(join(result.dir, 'README'), 'utf8'), 'read');
  assert.equal((await stat(join(result.dir, 'bin/run'))).mode & 0o777, 0o755);
  assert.equal((await stat(join(result.dir, 'README'))).mode & 0o777, 0o644);
  assert.equal(await readlink(join(result.dir, 'link')), 'bin/run');
});

const refused: [string, [Partial<Header> & { name: string }, string?][]][] = [
  ['that climbs out', [[{ name: 'a/../../b' }, 'x']]],
  ['with an absolute path', [[{ name: '/etc/flynn-escaped' }, 'x']]],
  [
    'below a symbolic link',
    [[{ name: 'out', type: 'symlink', linkname: '/tmp' }], [{ name: 'out/flynn-escaped' }, 'x']],
  ],
  ['that is a device', [[{ name: 'null', type: 'character-device' }]]],
];
for (const [name, entries] of refused) {
  test(`an entry ${name} is refused`, () => assert.rejects(unpacked(entries), { code: 'invalid' }));
}
