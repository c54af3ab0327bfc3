/** A commit as the archive that a build starts from. */
import { text } from 'node:stream/consumers';
import { FlynnError } from '@flynn/kit/errors';
import { endGroup } from '@flynn/kit/process-group';
import { withDeadline } from '@flynn/kit/retry';
import { withTimes } from './archive-times.ts';
import { endOf, endedBy, exitOf, runGit, startGit } from './git.ts';

export type Archived = {
  commit: string;
  repository: string;
  /** Beside git's own environment: where it keeps the objects of a push that is not accepted yet, say. */
  env?: Record<string, string>;
  /** Of a folder of it: nothing else of the commit counts then. */
  tree?: string;
  /** What .gitmodules would say in that folder. */
  modules?: string;
};

/** Of files and folders; of one path, which no system takes if it is longer; and of what tells the submodules, one word to git. */
export const treeLimits = { paths: 1_000_000, pathBytes: 8_192, submodulesBytes: 100_000 } as const;
type TreeLimits = Readonly<Record<keyof typeof treeLimits, number>>;
/** Of an archive: what is packed well is as much as it likes. */
export const maxArchiveBytes = 4 * 1024 ** 3;
const [treeMs, historyMs] = [2 * 60_000, 2 * 60_000];
const slow = `git did not tell within ${treeMs / 60_000} minutes what is in the commit: the disk is too slow, or it is too much`;
const submoduleMode = Buffer.from('160000 ');
const isSubmodule = (entry: Buffer): boolean => entry.subarray(0, submoduleMode.length).equals(submoduleMode);
const ofSubmodule = /^160000 commit ([0-9a-f]+)\t(.+)$/s;

/** In the archive, for the builder. */
const submodulesFile = '.flynn-submodules.json';
const modulesFile = '.gitmodules';

/**
 * A tar of the commit. git is started by the first read: the output of a process that has exited before anybody reads is
 * thrown away. A failure of git fails the stream, since half an archive is not to be taken for a whole one; so does an archive
 * of more than `maxBytes`, as `invalid`. The same commit is the same archive, however often it is asked for.
 */
export async function* archiveOf(
  { commit, repository, env = {}, tree = commit, modules = '' }: Archived,
  submodules: Readonly<Record<string, string>>,
  signal: AbortSignal,
  maxBytes = maxArchiveBytes,
): AsyncGenerator<Buffer> {
  signal.throwIfAborted();
  const seconds = tree === commit ? undefined : await secondsOf({ commit, repository, env }, signal);
  const isNeeded = Object.keys(submodules).length > 0;
  const told = isNeeded ? [`--add-virtual-file=${submodulesFile}:${JSON.stringify(submodules)}`] : [];
  // Behind what the folder itself may have of that name: the last one counts.
  if (isNeeded && modules !== '') told.push(`--add-virtual-file=${modulesFile}:${modules}`);
  const git = startGit(['--git-dir', repository, 'archive', '--format=tar', ...told, tree], { env });
  git.stdin.end();
  let problem = '';
  git.stderr.on('data', (data: Buffer) => (problem += data.toString().slice(0, 1_000)));
  const ended = exitOf(git);
  try {
    let bytes = 0;
    const tar = git.stdout as AsyncIterable<Buffer>;
    for await (const chunk of seconds === undefined ? tar : withTimes(tar, seconds)) {
      bytes += chunk.length;
      if (bytes > maxBytes) throw tooMuch(`more than ${maxBytes / 1024 ** 2} MiB of files`);
      yield chunk;
    }
    const code = await ended;
    if (code !== 0) {
      throw new FlynnError('internal', `git archive failed with exit code ${code}: ${problem.trim()}`);
    }
  } finally {
    git.kill();
  }
}

/** When the commit was made, since 1970. */
async function secondsOf({ commit, repository, env = {} }: Archived, signal: AbortSignal): Promise<number> {
  const told = await runGit(['--git-dir', repository, 'log', '-1', '--format=%ct', commit], { env, signal });
  const seconds = Number(told);
  return Number.isSafeInteger(seconds) ? seconds : 0;
}

/** `commit`, as it should be, or `tag`, `tree`, `blob`. */
export async function typeOf({ commit, repository, env = {} }: Archived, signal: AbortSignal): Promise<string> {
  return (await runGit(['--git-dir', repository, 'cat-file', '-t', commit], { env, signal })).trim();
}

/** Whether the commits before it are all there, which those of a clone without its history are not. */
export async function isWhole({ commit, repository, env = {} }: Archived, signal: AbortSignal): Promise<boolean> {
  const limited = withDeadline(historyMs, signal);
  limited.throwIfAborted();
  const git = startGit(['--git-dir', repository, 'rev-list', '--count', commit, '--not', '--all'], { env });
  using _ending = endedBy(git, limited);
  git.stdin.end();
  git.stdout.resume();
  git.stderr.resume();
  const code = await exitOf(git);
  limited.throwIfAborted();
  return code === 0;
}

/**
 * Path → commit, from the top of what is archived. An archive has an empty folder in the place of a submodule: the builder,
 * which has the app's keys and reaches no more of the cluster than the app does, fetches what belongs there. `invalid` of a
 * commit that is more than `limits`, which few objects are enough for: folders that are all the same one are as many paths as
 * somebody likes.
 */
export async function findSubmodules(
  { commit, repository, env = {}, tree = commit }: Archived,
  signal: AbortSignal,
  limits: TreeLimits = treeLimits,
): Promise<Record<string, string>> {
  const limited = withDeadline(treeMs, signal);
  limited.throwIfAborted();
  // Folders are told too: one that has nothing but folders has an end only by their number.
  const git = startGit(['--git-dir', repository, 'ls-tree', '-r', '-t', '-z', tree], { env });
  using _ending = endedBy(git, limited);
  git.stdin.end();
  const [ended, problem] = [exitOf(git), text(git.stderr)];
  const submodules: (readonly [path: string, commit: string])[] = [];
  let submodulesBytes = 0;
  let begun: Buffer = Buffer.alloc(0);
  let count = 0;
  try {
    for await (const chunk of git.stdout as AsyncIterable<Buffer>) {
      const split = splitEntries(begun, chunk, limits.pathBytes);
      ({ begun } = split);
      count += split.entries.length;
      if (count > limits.paths) throw tooMuch(`more than ${limits.paths} files and folders`);
      for (const entry of split.entries) {
        const [, submodule, path] = isSubmodule(entry) ? (ofSubmodule.exec(entry.toString()) ?? []) : [];
        if (submodule === undefined || path === undefined) continue;
        const found = [path, submodule] as const;
        submodulesBytes += Buffer.byteLength(JSON.stringify(found));
        if (submodulesBytes > limits.submodulesBytes) throw tooMuch(`more than ${submodules.length} submodules`);
        submodules.push(found);
      }
    }
  } catch (error) {
    endGroup(git);
    await ended;
    throw limited.aborted ? endOf(limited, slow) : error;
  }
  const code = await ended;
  if (limited.aborted) throw endOf(limited, slow);
  if (code !== 0) throw new FlynnError('internal', `git ls-tree failed with exit code ${code}: ${await problem}`);
  return Object.fromEntries(submodules);
}

/** What is told of one path ends with a zero byte. `begun`: of the one that the next chunk goes on with. */
function splitEntries(begun: Buffer, chunk: Buffer, mostBytes: number): { entries: Buffer[]; begun: Buffer } {
  const entries: Buffer[] = [];
  let rest = begun.length === 0 ? chunk : Buffer.concat([begun, chunk]);
  for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
    entries.push(rest.subarray(0, end));
    rest = rest.subarray(end + 1);
  }
  const isTooLong = rest.length > mostBytes || entries.some(({ length }) => length > mostBytes);
  if (isTooLong) throw tooMuch(`a path of more than ${mostBytes} bytes`);
  return { entries, begun: rest };
}

function tooMuch(what: string): FlynnError {
  return new FlynnError(
    'invalid',
    `the commit has ${what}: keep what is not built from out of the repository, and fetch it in the build`,
  );
}
