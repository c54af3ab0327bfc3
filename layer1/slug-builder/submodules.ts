/** Puts the submodules in their places that the git receiver told of beside the source. */
import { mkdir, rm } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import { z } from 'zod';
import type { BuildContext } from './buildpack.ts';
import { withoutPassword } from './buildpack-source.ts';
import { runForOutput } from './command.ts';
import { exists } from './nodejs/toolchain.ts';

/** Written by whoever archives the commit, beside the source. */
export const toldFile = '.flynn-submodules.json';
export const modulesFile = '.gitmodules';
/** Path → commit. */
export const toldSchema = z.record(z.string(), z.string().regex(/^[0-9a-f]{40,64}$/));

type Context = Pick<BuildContext, 'layout' | 'baseEnv' | 'out' | 'signal'>;

export async function fetchSubmodules(context: Context): Promise<void> {
  const { layout, out } = context;
  const file = join(layout.appDir, toldFile);
  const told = await readTextFile(file);
  if (told === undefined) return;
  const commits = Object.entries(toldSchema.parse(JSON.parse(told)));
  const urls = (await exists(join(layout.appDir, modulesFile))) ? await readUrls(context) : new Map<string, string>();
  await rm(file);
  out.topic(`Fetching ${commits.length === 1 ? 'a submodule' : `${commits.length} submodules`}`);
  for (const [path, commit] of commits) {
    const url = urls.get(path);
    checkUrl(path, url);
    out.line(`${path}: ${withoutPassword(url)}`);
    await fetchOne({ path, commit, url }, context);
  }
}

/** Path → URL, of .gitmodules. */
async function readUrls({ layout, baseEnv, signal }: Context): Promise<Map<string, string>> {
  const args = ['config', '--null', '--file', modulesFile, '--get-regexp', String.raw`^submodule\..*\.(path|url)$`];
  const options = { cwd: layout.appDir, env: baseEnv, signal };
  return parseModules(await runForOutput(['git', ...args], options));
}

/** Of `git config --null --get-regexp`: name and value apart by a newline, entries by NUL. */
export function parseModules(text: string): Map<string, string> {
  const paths = new Map<string, string>();
  const urls = new Map<string, string>();
  for (const entry of text.split('\0')) {
    const [, name, field, value] = /^submodule\.(.+)\.(path|url)\n(.*)$/s.exec(entry) ?? [];
    if (name === undefined || value === undefined) continue;
    (field === 'path' ? paths : urls).set(name, value);
  }
  return new Map([...paths].flatMap(([name, path]) => (urls.has(name) ? [[path, urls.get(name) ?? '']] : [])));
}

function checkUrl(path: string, url: string | undefined): asserts url is string {
  if (posix.normalize(path).startsWith('..') || posix.isAbsolute(path)) {
    throw new FlynnError('invalid', `the submodule ${path} is not inside the repository`);
  }
  if (url === undefined) {
    throw new FlynnError(
      'invalid',
      `${path} is a commit of another repository, and .gitmodules does not say of which: git submodule add URL ${path}, or git rm --cached ${path}`,
    );
  }
  if (url.startsWith('./') || url.startsWith('../')) {
    throw new FlynnError(
      'invalid',
      `the submodule ${path} is told by an address relative to the repository's own (${url}), which a push does not say: write the whole address in .gitmodules`,
    );
  }
  if (!/^(?:https?|ssh|git):\/\/[^-]/.test(url) && !/^[\w.-]+@[\w.-]+:[^-]/.test(url)) {
    throw new FlynnError(
      'invalid',
      `the submodule ${path} has an address that cannot be fetched from here: ${withoutPassword(url)}`,
    );
  }
}

async function fetchOne(
  { path, commit, url }: { path: string; commit: string; url: string },
  { layout, baseEnv, signal }: Context,
): Promise<void> {
  const dir = join(layout.appDir, path);
  await mkdir(dir, { recursive: true });
  const git = (...args: string[]): Promise<string> =>
    runForOutput(['git', ...args], { cwd: dir, env: { ...baseEnv, GIT_TERMINAL_PROMPT: '0' }, signal });
  try {
    await git('init', '--quiet');
    await git('remote', 'add', 'origin', url);
    try {
      await git('fetch', '--quiet', '--depth', '1', 'origin', commit);
    } catch (error) {
      if (signal.aborted) throw error;
      // Not every server gives a commit that no branch or tag ends with.
      await git('fetch', '--quiet', '--tags', 'origin', '+refs/heads/*:refs/remotes/origin/*');
    }
    await git('checkout', '--quiet', '--detach', commit);
    await git('submodule', 'update', '--quiet', '--init', '--recursive', '--depth', '1');
    await runForOutput(['find', '.', '-name', '.git', '-prune', '-exec', 'rm', '-rf', '{}', '+'], {
      cwd: dir,
      env: baseEnv,
      signal,
    });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new FlynnError(
      'invalid',
      `could not fetch the submodule ${path}: ${messageOf(error).replaceAll(url, withoutPassword(url))}\nCheck that the commit was pushed to its repository, and that the cluster reaches that. If it is not public, give the app a key that may read it: flynn env set SSH_CLIENT_KEY="$(cat FILE)"`,
      { cause: error },
    );
  }
}
