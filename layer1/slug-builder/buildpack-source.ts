/** Brings a buildpack here: by git, as an archive, or from a folder. */
import { mkdir, readdir, stat } from 'node:fs/promises';
import { basename, isAbsolute, join } from 'node:path';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { BuildContext } from './buildpack.ts';
import { type CommandOptions, runForOutput } from './command.ts';

export type Source =
  | { type: 'archive'; url: string }
  | { type: 'git'; url: string; ref: string | undefined }
  | { type: 'folder'; path: string };

/** `https://….tgz` is an archive, an absolute path a folder, everything else a git URL with an optional `#ref`. */
export function parseSource(text: string): Source {
  const [url = '', ref] = text.split('#', 2);
  if (/^https?:\/\/[^?]+\.(?:tgz|tar\.gz|tar\.xz)(?:\?.*)?$/.test(url)) return { type: 'archive', url };
  if (isAbsolute(url) && ref === undefined && !url.endsWith('.git')) return { type: 'folder', path: url };
  const isGit = /^(?:https?|git|ssh|file):\/\/./.test(url) || /^[\w.-]+@[\w.-]+:./.test(url) || isAbsolute(url);
  if (!isGit || url.startsWith('-') || ref?.startsWith('-') === true) {
    throw new FlynnError(
      'invalid',
      `"${withoutPassword(text)}" is not a buildpack: give a git URL with an optional #branch, the https URL of a .tgz, or the name of a built-in one (nodejs, python, ruby, go, php, java, static, procfile)`,
    );
  }
  return { type: 'git', url, ref: ref === '' ? undefined : ref };
}

export function withoutPassword(url: string): string {
  return url.replace(/^(\w+:\/\/)[^/@]*@/, '$1');
}

/** As people call what is at a git URL: `pack` of `…/pack.git`, and of `…/pack/.git`. */
export function nameOf(url: string): string {
  return basename(url.replace(/\/?\.git\/*$/, ''));
}

/** The folder it is in then, and a name for messages. */
export async function fetchBuildpack(text: string, context: BuildContext): Promise<{ dir: string; name: string }> {
  const source = parseSource(text);
  const { layout, signal, baseEnv } = context;
  const options = { cwd: layout.scratchDir, env: { ...baseEnv, GIT_TERMINAL_PROMPT: '0' }, signal };
  const dir = join(layout.scratchDir, `buildpack-${(await readdir(layout.scratchDir)).length}`);
  try {
    if (source.type === 'folder') {
      if (
        !(await stat(source.path).then(
          (status) => status.isDirectory(),
          () => false,
        ))
      ) {
        throw new FlynnError('invalid', `there is no folder ${source.path}`);
      }
      // A copy: buildpacks write into their own folder.
      await runForOutput(['cp', '-a', '--no-preserve=ownership', source.path, dir], options);
      return { dir, name: basename(source.path) };
    }
    if (source.type === 'git') {
      await cloneInto(dir, source, options);
      await runForOutput(['git', '-C', dir, 'submodule', 'update', '--quiet', '--init', '--recursive'], options);
      return { dir, name: nameOf(source.url) };
    }
    await mkdir(dir, { recursive: true });
    const archive = join(dir, '.archive');
    await runForOutput(['curl', '-fsSL', '--retry', '2', '--max-time', '300', '-o', archive, source.url], options);
    await runForOutput(['tar', '--no-same-owner', '-xf', archive, '-C', dir], options);
    return {
      dir: await topOf(dir),
      name: basename(new URL(source.url).pathname).replace(/\.(?:tgz|tar\.gz|tar\.xz)$/, ''),
    };
  } catch (error) {
    if (signal.aborted) throw error;
    // The program's own words repeat the address it was given.
    const why = source.type === 'folder' ? messageOf(error) : messageOf(error).replaceAll(source.url, withoutPassword);
    throw new FlynnError(
      'invalid',
      `could not fetch the buildpack ${withoutPassword(text)}: ${why}\nCheck its URL, and that the cluster's hosts reach it.`,
      {
        cause: error,
      },
    );
  }
}

/** Without its history where that can be left out, which is most of what there is of a buildpack. */
async function cloneInto(
  dir: string,
  { url, ref }: Extract<Source, { type: 'git' }>,
  options: CommandOptions,
): Promise<void> {
  const branch = ref === undefined ? [] : ['--branch', ref];
  try {
    await runForOutput(['git', 'clone', '--quiet', '--depth', '1', ...branch, url, dir], options);
  } catch (error) {
    if (options.signal.aborted) throw error;
    // A commit is no branch, and not every server gives a part of its history: what is wrong besides is said again.
    await runForOutput(['git', 'clone', '--quiet', url, dir], options);
    if (ref !== undefined) await runForOutput(['git', '-C', dir, 'checkout', '--quiet', ref], options);
  }
}

/** Archives of hosting sites have everything in one folder. */
async function topOf(dir: string): Promise<string> {
  const names = (await readdir(dir)).filter((name) => name !== '.archive');
  const [only] = names;
  return names.includes('bin') || names.length !== 1 || only === undefined ? dir : join(dir, only);
}
