import assert from 'node:assert/strict';
import { mkdtemp, readFile, readlink, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { type Header, pack } from 'tar-stream';
import { pointerWarning } from './lfs-pointers.ts';
import { type Unpacked, unpackSource } from './unpack.ts';

async function unpacked(
  entries: [Partial<Header> & { name: string }, string?][],
): Promise<{ dir: string } & Unpacked & AsyncDisposable> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-unpack-'));
  const archive = pack();
  for (const [header, text] of entries) archive.entry(header, text ?? '');
  archive.finalize();
  const dispose = () => rm(dir, { recursive: true, force: true });
  try {
    const limits = { signal: AbortSignal.timeout(60_000) };
    const answer = await unpackSource(Readable.from(archive), join(dir, 'app'), limits);
    return { dir: join(dir, 'app'), ...answer, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
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

test('pointers of Git LFS are told, and are files as any', async () => {
  const pointer = `version https://lfs.example.com/spec/v1\noid sha256:${'a'.repeat(64)}\nsize 12345\n`;
  await using result = await unpacked([
    [{ name: 'a/b.png' }, pointer],
    [{ name: 'c.png' }, pointer.replace('\noid', '\next-0-x sha256:1\noid')],
    [{ name: 'about.md' }, `${pointer}This is how one looks.\n`],
    [{ name: 'large' }, pointer.repeat(20)],
    [{ name: 'empty' }],
  ]);
  assert.deepEqual(result.pointers, ['a/b.png', 'c.png']);
  assert.equal(await readFile(join(result.dir, 'a/b.png'), 'utf8'), pointer);
  assert.equal((await stat(join(result.dir, 'large'))).size, pointer.length * 20);
  assert.equal((await stat(join(result.dir, 'empty'))).size, 0);
});

test('the newest time of an archive is told, and 1980 of one that says none', async () => {
  const at = (time: string): { mtime: Date } => ({ mtime: new Date(time) });
  await using dated = await unpacked([
    [{ name: 'a', ...at('2020-01-01T00:00:00.900Z') }],
    [{ name: 'b', ...at('2020-01-01T00:00:02.500Z') }],
    [{ name: 'c', ...at('1999-01-01') }],
  ]);
  assert.equal(dated.timeS, Date.parse('2020-01-01T00:00:02Z') / 1000);
  await using undated = await unpacked([[{ name: 'a', ...at('1970-01-01') }]]);
  assert.equal(undated.timeS, Date.parse('1980-01-01') / 1000);
});

test('of many pointers a few are named', () => {
  assert.equal(pointerWarning([]), undefined);
  assert.match(pointerWarning(['a']) ?? '', /^A file is a pointer .*\na\n/);
  assert.match(pointerWarning('abcdefg'.split('')) ?? '', /^7 files are pointers .*\na, b, c, d, e and 2 more\n/);
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
