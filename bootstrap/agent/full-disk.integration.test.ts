/** A host whose disk is full: what brings it back writes nothing that is there already. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { mkdir, mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasCode, hasErrno, messageOf } from '@flynn/kit/errors';
import { writeFileAtomic } from '@flynn/kit/files';
import { installAgent } from './program.ts';
import { withHostLock } from '../host-lock.ts';

test('on a full disk a command has the host to itself all the same, and puts an agent in place that is there', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-full-'));
  const disk = join(folder.path, 'disk');
  await mkdir(disk);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'none', disk]);
  try {
    const stateDir = join(disk, 'state');
    const program = { name: 'one', code: Buffer.from('// one') };
    await mkdir(stateDir);
    await installAgent(stateDir, program);
    await assert.rejects(writeFile(join(disk, 'filling'), Buffer.alloc(64 * 2 ** 20)), (error) =>
      hasErrno(error, 'ENOSPC'),
    );
    const { ino } = statSync(join(stateDir, 'agent/choose-version'));
    const file = join(stateDir, 'cluster.json');
    await assert.rejects(
      writeFileAtomic(file, Buffer.alloc(2 ** 20)),
      (error) => hasErrno(error, 'ENOSPC') && messageOf(error).startsWith(`there is no room for ${file}`),
    );
    const done = await withHostLock(stateDir, 'flynn-host bootstrap', async () => {
      await assert.rejects(
        withHostLock(stateDir, 'another', () => assert.fail('two at once')),
        (error) => hasCode(error, 'conflict') && /had no room on the disk to say who it is/.test(error.message),
      );
      await installAgent(stateDir, program);
      return 'done';
    });
    assert.equal(done, 'done');
    assert.equal(statSync(join(stateDir, 'agent/choose-version')).ino, ino);
  } finally {
    execFileSync('umount', [disk]);
  }
});
