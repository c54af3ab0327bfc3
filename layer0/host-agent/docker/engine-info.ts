/** What Docker says about itself, also while it hangs. */
import { availableParallelism, totalmem } from 'node:os';
import { hasCode } from '@flynn/kit/errors';
import type { CallOptions, EngineInfo } from '../engine/engine.ts';
import type { DockerContext } from './containers.ts';
import { engineDataDir } from './data-dir.ts';
import { engineCall } from './errors.ts';

const doing = 'asking the engine about itself';
const patienceMs = 10_000;

/**
 * Docker looks through its networks for that, so one whose network locks are stuck never answers it. Such a one tells its version;
 * the rest is this machine's, and an agent that begins beside it can say what is wrong.
 */
export async function engineInfo(
  { docker }: Pick<DockerContext, 'docker'>,
  { deadlineMs = patienceMs, ...options }: CallOptions & { deadlineMs?: number } = {},
): Promise<EngineInfo> {
  try {
    const told = await engineCall(doing, () => docker.info(), { ...options, deadlineMs });
    return { memoryBytes: told.MemTotal, cores: told.NCPU, version: told.ServerVersion, rootDir: told.DockerRootDir };
  } catch (error) {
    if (options.signal?.aborted === true || !hasCode(error, 'timeout')) throw error;
  }
  const { Version: version } = await engineCall(doing, () => docker.version(), { ...options, deadlineMs });
  return { memoryBytes: totalmem(), cores: availableParallelism(), version, rootDir: await engineDataDir() };
}
