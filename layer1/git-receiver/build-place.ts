/** Which part of a commit is built? What is not as the app's settings have it is told before anything is stored. */
import type { BuildPlace } from '@flynn/controller/build-place';
import { placeMeta } from '@flynn/controller/build-place';
import { FlynnError } from '@flynn/kit/errors';
import { type Archived, treeLimits } from './archive.ts';
import { runGit } from './git.ts';
import { modulesBelow } from './git-modules.ts';

type App = { name: string };
type Entry = { mode: string; id: string };

const kinds: Readonly<Record<string, string>> = {
  '040000': 'a folder',
  '120000': 'a symbolic link',
  '160000': 'a submodule',
};
const kindOf = ({ mode }: Entry): string => kinds[mode] ?? 'a file';

/**
 * The commit as it is archived: of a folder that, with what .gitmodules says of submodules in it. `invalid` if there is no such
 * folder or Dockerfile in it; links and submodules are not followed, so that what is built is in the commit.
 */
export async function locate(
  source: Archived,
  place: BuildPlace,
  { app, signal }: { app: App; signal: AbortSignal },
): Promise<Archived> {
  const { folder, dockerfile } = place;
  const found = folder === undefined ? undefined : await find(source, folder, 'a folder', signal);
  if (typeof found === 'string') throw refusal(source, 'folder', folder ?? '', found, app);
  if (dockerfile !== undefined) {
    const path = folder === undefined ? dockerfile : `${folder}/${dockerfile}`;
    const file = await find(source, path, 'a file', signal);
    if (typeof file === 'string') throw refusal(source, 'dockerfile', path, file, app);
  }
  if (folder === undefined || found === undefined) return source;
  return { ...source, tree: found.id, ...(await modulesOf(source, folder, signal)) };
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
  let listed: string;
  try {
    listed = await runGit(['--git-dir', repository, 'config', '--null', '--list', '--blob', entry.id], { env, signal });
  } catch (error) {
    if (!(error instanceof FlynnError) || error.code !== 'internal') throw error;
    throw new FlynnError('invalid', 'git cannot read the .gitmodules of the commit: "git submodule status" tells why', {
      cause: error,
    });
  }
  const modules = modulesBelow(folder, listed);
  if (Buffer.byteLength(modules) > treeLimits.submodulesBytes) {
    throw new FlynnError('invalid', `.gitmodules tells of too many submodules in ${folder}: have fewer of them`);
  }
  return { modules };
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
