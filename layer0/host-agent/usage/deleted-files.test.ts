import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, mkdtempDisposable, open, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { deletedBytes } from './deleted-files.ts';

const id = 'c0ffee'.padEnd(64, '0');
const pid = 4711;

for (const [version, cgroup, group] of [
  [1, `5:pids:/docker/${id}\n4:memory:/docker/${id}\n`, `pids/docker/${id}`],
  [2, `0::/system.slice/docker-${id}.scope\n`, `system.slice/docker-${id}.scope`],
] as const) {
  test(`what a process keeps open of deleted files counts once, by control groups of version ${version}`, async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-deleted-'));
    const at = (...parts: string[]): string => join(folder.path, ...parts);
    await mkdir(at('proc', String(pid)), { recursive: true });
    await mkdir(at('cgroup', group), { recursive: true });
    await writeFile(at('proc', String(pid), 'cgroup'), cgroup);
    await writeFile(at('cgroup', group, 'cgroup.procs'), `${pid}\n4712\n`);
    // Its descriptors are this process's own, and its file system is the one of the folder.
    await symlink(`/proc/${process.pid}/fd`, at('proc', String(pid), 'fd'));
    await symlink(folder.path, at('proc', String(pid), 'root'));
    const places = { proc: at('proc'), controlGroups: at('cgroup') };
    const before = await deletedBytes(pid, id, places);
    const opened = async (path: string) => {
      await writeFile(path, Buffer.alloc(64 * 1024, 1));
      return open(path);
    };
    await using kept = await opened(at('kept'));
    await using first = await opened(at('gone'));
    await using second = await open(at('gone'));
    await using other = existsSync('/dev/shm') ? await opened('/dev/shm/flynn-deleted-test') : undefined;
    await rm(at('gone'));
    await rm('/dev/shm/flynn-deleted-test', { force: true });
    assert.equal((await deletedBytes(pid, id, places)) - before, 64 * 1024);
    assert.equal(await deletedBytes(pid, 'another container', places), 0);
    for (const one of [kept, first, second, other]) await one?.close();
    assert.equal(await deletedBytes(pid, id, places), before);
  });
}
