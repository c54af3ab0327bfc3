/** Removes the repositories of apps that were deleted, and what pushes left that were cut off with the receiver. */
import { hasErrno } from '@flynn/kit/errors';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import { newPrefix, runGit } from './git.ts';
import type { Platform } from './platform.ts';
import { inTheWayOf } from './updates.ts';

const pauseMs = 3_600_000;

type SweepDeps = { repositoryDir: string; platform: Pick<Platform, 'appIds'>; log: Logger };

/**
 * One look. What is on disk is read before the apps are: an app that has just come, with its repository, is in the list.
 * Without a list nothing is removed.
 */
export async function removeOrphans(
  { repositoryDir, platform, log }: SweepDeps,
  options: { signal: AbortSignal },
): Promise<void> {
  const names = await namesIn(repositoryDir);
  const found = names.flatMap((name) => /^([A-Za-z0-9][A-Za-z0-9_-]*)\.git$/.exec(name)?.[1] ?? []);
  if (found.length === 0) return;
  const known = await platform.appIds(options);
  for (const id of found.filter((each) => !known.has(each))) {
    await rm(join(repositoryDir, `${id}.git`), { recursive: true, force: true });
    log.info({ app: id }, 'removed the repository of an app that was deleted');
  }
}

/** Before any push is taken: what pushes left that the receiver's own end cut off. */
export async function removeUnfinished(repositoryDir: string): Promise<void> {
  for (const name of await namesIn(repositoryDir)) {
    const path = join(repositoryDir, name);
    if (name.startsWith(newPrefix)) await rm(path, { recursive: true, force: true });
    if (!name.endsWith('.git')) continue;
    await removeLeft(path);
  }
}

/** What a git left that was killed. While none writes to the repository; it may be read. */
export async function removeLeft(repository: string): Promise<void> {
  await removeQuarantines(repository);
  await removeLocks(repository);
  await removeHalfPacks(repository);
}

/**
 * Beside the lock of its branch every push would be built and go live, and be refused then; beside that of its
 * maintenance the repository would never be packed again.
 */
async function removeLocks(repository: string): Promise<void> {
  // A branch with a slash in its name lies deeper, and so do parts of the commit graph. Of objects there are many.
  for (const [path, recursive] of [
    ['', false],
    ['refs', true],
    ['objects', false],
    ['objects/info', true],
    ['objects/pack', false],
  ] as const) {
    const dir = join(repository, path);
    for (const name of await namesIn(dir, { recursive })) {
      if (name.endsWith('.lock')) await rm(join(dir, name), { force: true });
    }
  }
  // In another container the process that it names is not told from one that runs, for half a day.
  await rm(join(repository, 'gc.pid'), { force: true });
}

/** What packing wrote until it was killed, which may be as large as the repository. */
async function removeHalfPacks(repository: string): Promise<void> {
  const packs = join(repository, 'objects/pack');
  for (const name of await namesIn(packs)) {
    if (/^(?:tmp_|\.tmp-)/.test(name)) await rm(join(packs, name), { force: true });
  }
}

/** The commit of each branch, by its ref. */
export async function headsOf(repository: string, options: { signal: AbortSignal }): Promise<Map<string, string>> {
  const args = ['--git-dir', repository, 'for-each-ref', '--format=%(objectname) %(refname)', 'refs/heads'];
  const lines = (await runGit(args, options)).split('\n').filter((line) => line !== '');
  return new Map(lines.map((line) => [line.slice(line.indexOf(' ') + 1), line.slice(0, line.indexOf(' '))]));
}

/**
 * Removes the branches beside which git cannot keep this one: they were deployed before the app named another. Once its commit
 * is live, and not before: until then one of them may be what runs.
 */
export async function makeRoomFor(repository: string, ref: string, options: { signal: AbortSignal }): Promise<void> {
  const heads = await headsOf(repository, options);
  for (const other of inTheWayOf(ref, [...heads.keys()])) {
    await runGit(['--git-dir', repository, 'update-ref', '-d', other], options);
  }
}

/** What git kept of a push that is not accepted yet. */
async function removeQuarantines(repository: string): Promise<void> {
  const objects = join(repository, 'objects');
  for (const name of await namesIn(objects)) {
    if (name.startsWith('tmp_objdir-')) await rm(join(objects, name), { recursive: true, force: true });
  }
}

async function namesIn(dir: string, options: { recursive?: boolean } = {}): Promise<string[]> {
  return readdir(dir, options).catch((error: unknown) => {
    if (hasErrno(error, 'ENOENT')) return [];
    throw error;
  });
}

/** Now and every hour, until the signal aborts. */
export function sweepRepositories(deps: SweepDeps, signal: AbortSignal): Promise<void> {
  const step = async (running: AbortSignal) => {
    await removeOrphans(deps, { signal: running });
    await systemClock.sleep(pauseMs, { signal: running });
  };
  return forever('removing repositories of deleted apps', step, { signal, log: deps.log, maxMs: 60_000 });
}
