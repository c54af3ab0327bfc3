/** Removes the repositories of apps that were deleted. */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import type { Platform } from './platform.ts';

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
  const names = await readdir(repositoryDir).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw error;
  });
  const found = names.flatMap((name) => /^([A-Za-z0-9][A-Za-z0-9_-]*)\.git$/.exec(name)?.[1] ?? []);
  if (found.length === 0) return;
  const known = await platform.appIds(options);
  for (const id of found.filter((each) => !known.has(each))) {
    await rm(join(repositoryDir, `${id}.git`), { recursive: true, force: true });
    log.info({ app: id }, 'removed the repository of an app that was deleted');
  }
}

/** Now and every hour, until the signal aborts. */
export function sweepRepositories(deps: SweepDeps, signal: AbortSignal): Promise<void> {
  const step = async (running: AbortSignal) => {
    await removeOrphans(deps, { signal: running });
    await systemClock.sleep(pauseMs, { signal: running });
  };
  return forever('removing repositories of deleted apps', step, { signal, log: deps.log, maxMs: 60_000 });
}
