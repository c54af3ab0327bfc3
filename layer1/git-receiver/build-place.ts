/** Which part of a commit is built? What is not as the app's settings have it is told before anything is stored. */
import type { BuildPlace } from '@flynn/controller/builds/place';
import { placeMeta } from '@flynn/controller/builds/place';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { type Archived, findSubmodules, treeLimits } from './archive.ts';
import { runGit } from './git.ts';
import { modulesBelow } from './git-modules.ts';

type App = { name: string };
type Entry = { mode: string; id: string };
export type Located = { source: Archived; submodules: Readonly<Record<string, string>> };

/**
 * Of .gitmodules. What git tells of it can be far more than it is: a name counts once for each of its settings. Whatever reads
 * it has one process for everybody's commits.
 */
const modulesLimits = { bytes: 1024 ** 2, toldBytes: 4 * 1024 ** 2 } as const;

const kinds: Readonly<Record<string, string>> = {
  '040000': 'a folder',
  '120000': 'a symbolic link',
  '160000': 'a submodule',
};
const kindOf = ({ mode }: Entry): string => kinds[mode] ?? 'a file';

/**
 * The commit as it is archived, and its submodules: of a folder that, with what .gitmodules says of submodules in it. `invalid`
 * if there is no such folder or Dockerfile in it; links and submodules are not followed, so that what is built is in the commit.
 */
export async function locate(
  source: Archived,
  place: BuildPlace,
  { app, signal }: { app: App; signal: AbortSignal },
): Promise<Located> {
  const { folder, dockerfile } = place;
  const found = folder === undefined ? undefined : await find(source, folder, 'a folder', signal);
  if (typeof found === 'string') throw refusal(source, 'folder', folder ?? '', found, app);
  if (dockerfile !== undefined) {
    const path = folder === undefined ? dockerfile : `${folder}/${dockerfile}`;
    const file = await find(source, path, 'a file', signal);
    if (typeof file === 'string') throw refusal(source, 'dockerfile', path, file, app);
  }
  if (folder === undefined || found === undefined) return { source, submodules: await findSubmodules(source, signal) };
  const part = { ...source, tree: found.id };
  const submodules = await findSubmodules(part, signal);
  if (Object.keys(submodules).length === 0) return { source: part, submodules };
  return { source: { ...part, ...(await modulesOf(source, folder, signal)) }, submodules };
}

/** Else what is in its way, for people. */
async function find(
  source: Archived,
  path: string,
  wanted: 'a folder' | 'a file',
  signal: AbortSignal,
): Promise<Entry | string> {
  const names = path.split('/');
  let entry: Entry = { mode: '040000', id: source.commit };
  for (const [index, name] of names.entries()) {
    const next = await entryOf(source, entry.id, name, signal);
    if (next === undefined) return 'is not in';
    const isLast = index === names.length - 1;
    const kind = kindOf(next);
    if (kind !== (isLast ? wanted : 'a folder')) {
      return isLast ? `is ${kind} in` : `cannot be in: ${names.slice(0, index + 1).join('/')} is ${kind} there, in`;
    }
    entry = next;
  }
  return entry;
}

async function entryOf(
  { repository, env = {} }: Archived,
  tree: string,
  name: string,
  signal: AbortSignal,
): Promise<Entry | undefined> {
  const args = ['--literal-pathspecs', '--git-dir', repository, 'ls-tree', '-z', tree, '--', name];
  const [, mode, id] = /^(\d+) \w+ ([0-9a-f]+)\t/.exec(await runGit(args, { env, signal })) ?? [];
  return mode === undefined || id === undefined ? undefined : { mode, id };
}

async function modulesOf(source: Archived, folder: string, signal: AbortSignal): Promise<{ modules?: string }> {
  const entry = await entryOf(source, source.commit, '.gitmodules', signal);
  if (entry === undefined || kindOf(entry) !== 'a file') return {};
  const { repository, env = {} } = source;
  const size = Number(await runGit(['--git-dir', repository, 'cat-file', '-s', entry.id], { env, signal }));
  const { bytes, toldBytes: maxBytes } = modulesLimits;
  if (!(size <= bytes))
    throw new FlynnError('invalid', `.gitmodules has more than ${bytes / 1024 ** 2} MiB: make it shorter`);
  let listed: string;
  try {
    const args = ['--git-dir', repository, 'config', '--null', '--list', '--blob', entry.id];
    listed = await runGit(args, { env, signal, maxBytes });
  } catch (error) {
    if (hasCode(error, 'exhausted')) throw tooManyModules(folder);
    if (!hasCode(error, 'internal')) throw error;
    throw new FlynnError('invalid', 'git cannot read the .gitmodules of the commit: "git submodule status" tells why', {
      cause: error,
    });
  }
  const modules = modulesBelow(folder, listed);
  if (Buffer.byteLength(modules) > treeLimits.submodulesBytes) throw tooManyModules(folder);
  return { modules };
}

function tooManyModules(folder: string): FlynnError {
  return new FlynnError('invalid', `.gitmodules tells too much of the submodules in ${folder}: have fewer of them`);
}

function refusal(
  { commit }: Archived,
  name: 'folder' | 'dockerfile',
  path: string,
  problem: string,
  app: App,
): FlynnError {
  const what = name === 'folder' ? 'the folder' : 'the Dockerfile';
  const short = commit.slice(0, 8);
  return new FlynnError(
    'invalid',
    `${path}, ${what} that ${app.name} is built from (${placeMeta[name]} of its metadata, see "flynn build -a ${app.name}"), ${problem} commit ${short}. Commit it there, or name another: flynn build set --${name} PATH -a ${app.name}; without one: flynn build unset ${name} -a ${app.name}`,
  );
}
