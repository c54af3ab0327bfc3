/** How etcd's offline tool is run. It comes with etcd 3.5 and later, the one of Debian 13 among them. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { abortError } from '@flynn/kit/clock';
import { shortId } from '@flynn/kit/ids';

const run = promisify(execFile);

/** Runs etcdutl to its end; `folders` are those its arguments name, which it has to see under the same paths. */
export type Etcdutl = (
  args: readonly string[],
  options: { folders: readonly string[]; signal: AbortSignal },
) => Promise<void>;

/** A program of this machine. */
export function etcdutlProgram(binary = 'etcdutl'): Etcdutl {
  return (args, { signal }) => finish(binary, args, signal);
}

/** In a container of an image that has it, etcd's own. Docker has to be there. */
export function etcdutlOfImage(image: string): Etcdutl {
  return async (args, { folders, signal }) => {
    const name = `flynn-etcdutl-${shortId()}`;
    const volumes = folders.map((folder) => `--volume=${folder}:${folder}`);
    const fixed = ['run', '--rm', `--name=${name}`, '--network=none', '--entrypoint=etcdutl', ...volumes];
    try {
      await finish('docker', [...fixed, image, ...args], signal);
    } finally {
      // Killing the client leaves the container behind.
      if (signal.aborted) await run('docker', ['rm', '--force', name], { timeout: 60_000 });
    }
  };
}

async function finish(binary: string, args: readonly string[], signal: AbortSignal): Promise<void> {
  try {
    await run(binary, args, { signal });
  } catch (error) {
    if (signal.aborted) throw abortError(signal);
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
    const why = said === '' ? messageOf(error) : said;
    throw new FlynnError('unavailable', `etcdutl ${args[0] ?? ''} failed: ${why}`, { cause: error });
  }
}
