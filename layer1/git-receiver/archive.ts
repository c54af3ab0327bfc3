/** A commit as the archive that a build starts from. */
import { FlynnError } from '@flynn/kit/errors';
import { exitOf, runGit, startGit } from './git.ts';

export type Archived = {
  commit: string;
  repository: string;
  /** Beside git's own environment: where it keeps the objects of a push that is not accepted yet, say. */
  env?: Record<string, string>;
};

/** In the archive, for the builder. */
const submodulesFile = '.flynn-submodules.json';

/**
 * A tar of the commit. git is started by the first read: the output of a process that has exited before anybody reads is
 * thrown away. A failure of git fails the stream, since half an archive is not to be taken for a whole one.
 */
export async function* archiveOf(
  { commit, repository, env = {} }: Archived,
  submodules: Readonly<Record<string, string>>,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  signal.throwIfAborted();
  const isNeeded = Object.keys(submodules).length > 0;
  const told = isNeeded ? [`--add-virtual-file=${submodulesFile}:${JSON.stringify(submodules)}`] : [];
  const git = startGit(['--git-dir', repository, 'archive', '--format=tar', ...told, commit], { env });
  git.stdin.end();
  let problem = '';
  git.stderr.on('data', (data: Buffer) => (problem += data.toString().slice(0, 1_000)));
  const ended = exitOf(git);
  try {
    yield* git.stdout;
    const code = await ended;
    if (code !== 0) {
      throw new FlynnError('internal', `git archive failed with exit code ${code}: ${problem.trim()}`);
    }
  } finally {
    git.kill();
  }
}

/** `commit`, as it should be, or `tag`, `tree`, `blob`. */
export async function typeOf({ commit, repository, env = {} }: Archived): Promise<string> {
  return (await runGit(['--git-dir', repository, 'cat-file', '-t', commit], { env })).trim();
}

/**
 * Path → commit. An archive has an empty folder in the place of a submodule: the builder, which has the app's keys and reaches
 * no more of the cluster than the app does, fetches what belongs there.
 */
export async function findSubmodules({ commit, repository, env = {} }: Archived): Promise<Record<string, string>> {
  const tree = await runGit(['--git-dir', repository, 'ls-tree', '-r', '-z', commit], { env });
  return Object.fromEntries(
    tree.split('\0').flatMap((entry) => {
      const [, submodule, path] = /^160000 commit ([0-9a-f]+)\t(.+)$/s.exec(entry) ?? [];
      return submodule === undefined || path === undefined ? [] : [[path, submodule] as const];
    }),
  );
}
