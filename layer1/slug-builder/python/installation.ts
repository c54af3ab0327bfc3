/** What does pip install of the app, in which steps, and what does that depend on? */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext } from '../buildpack.ts';
import { buildEnv } from '../environment.ts';
import { firstThere } from '../first-there.ts';
import { exists } from '../nodejs/toolchain.ts';
import { type NamedIndex, authorized, defaultIndex, loginAdvice } from './indexes.ts';
import { type Lock, isUsualIndex, requirementFiles } from './locked.ts';
import { readPipfileLock } from './pipfile.ts';
import { readPoetryLock } from './poetry-lock.ts';
import { type PyProject, readPyProject } from './pyproject.ts';
import { hasLocal, requirementsText } from './requirements.ts';
import { readUvLock } from './uv-lock.ts';

/** The first that is there says what to install. */
const signs = ['requirements.txt', 'Pipfile.lock', 'pyproject.toml', 'setup.py'] as const;

/** Arguments of pip, and what people call it. */
export type Step = Readonly<{ args: readonly string[]; called: string }>;
export type Installation = Readonly<{
  steps: readonly Step[];
  /** All that decides what they install; undefined where that is part of the source, or elsewhere. */
  dependsOn: string | undefined;
  /** Logins at indexes: for pip alone. */
  env?: Readonly<Record<string, string>>;
  /** What to look at where pip fails. */
  check?: readonly string[];
}>;

export async function signOf(appDir: string): Promise<(typeof signs)[number] | undefined> {
  return firstThere(appDir, signs);
}

type Context = Pick<BuildContext, 'layout' | 'out' | 'appEnv' | 'baseEnv'>;

const wholeApp: Step = { args: ['.'], called: 'pip install .' };
const appAlone: Step = { args: ['--no-deps', '.'], called: 'pip install --no-deps .' };

export async function installationOf(context: Context): Promise<Installation> {
  const { appEnv, baseEnv } = context;
  const index = defaultIndex(appEnv, baseEnv);
  const { env, ...installation } = await packagesOf(context);
  return { ...installation, env: { ...(index === undefined ? {} : { PIP_INDEX_URL: index }), ...env } };
}

async function packagesOf(context: Context): Promise<Installation> {
  const { appDir } = context.layout;
  switch (await signOf(appDir)) {
    case 'requirements.txt': {
      const text = await requirementsText(appDir, 'requirements.txt');
      const steps = [{ args: ['-r', 'requirements.txt'], called: 'pip install -r requirements.txt' }];
      return { steps, dependsOn: text === undefined || (await hasLocal(appDir, text)) ? undefined : text };
    }
    case 'Pipfile.lock':
      return ofLock(context, 'Pipfile.lock', readPipfileLock(await textOf(appDir, 'Pipfile.lock')), []);
    case 'pyproject.toml':
      return ofProject(context, readPyProject(await textOf(appDir, 'pyproject.toml')));
    case 'setup.py':
    case undefined:
    default:
      return { steps: [wholeApp], dependsOn: undefined };
  }
}

async function ofProject(context: Context, project: PyProject): Promise<Installation> {
  const { appDir } = context.layout;
  if (await exists(join(appDir, 'uv.lock'))) {
    return ofLock(context, 'uv.lock', readUvLock(await textOf(appDir, 'uv.lock')), project.indexes);
  }
  if (await exists(join(appDir, 'poetry.lock'))) {
    const lock = readPoetryLock(await textOf(appDir, 'poetry.lock'), project);
    return ofLock(context, 'poetry.lock', lock, project.indexes);
  }
  if (project.isPackage || project.isToldByBuild || (await hasSetup(appDir))) {
    return { steps: [wholeApp], dependsOn: undefined };
  }
  if (project.needs.length > project.requirements.length) {
    throw new FlynnError(
      'invalid',
      'pyproject.toml is of Poetry, and there is no poetry.lock: write it with "poetry lock", and commit it',
    );
  }
  if (project.requirements.length === 0) return { steps: [], dependsOn: '' };
  context.out.warn(
    'There is no lockfile: each build may get other versions.\nWrite one with "uv lock" or "poetry lock", and commit it.',
  );
  const others = project.indexes.filter(({ url }) => !isUsualIndex(url));
  const { urls, env } = authorized(
    others.map(({ url }) => url),
    others,
    buildEnv(context),
  );
  const options = urls.map(
    (url, at) => `${others[at]?.isDefault === true ? '--index-url' : '--extra-index-url'} ${url}\n`,
  );
  const text = [...options, ...project.requirements.map((requirement) => `${requirement}\n`)].join('');
  const step = {
    args: ['-r', await written(context, 'requirements-of-pyproject.txt', text)],
    called: 'pip install of pyproject.toml',
  };
  return {
    steps: [step],
    dependsOn: (await hasLocal(appDir, text)) ? undefined : text,
    env,
    check: loginAdvice(urls, others),
  };
}

/** Whether setuptools, which pip takes where no build system is named, has files of its own. setup.cfg has others' settings too. */
async function hasSetup(appDir: string): Promise<boolean> {
  return (await exists(join(appDir, 'setup.py'))) || /^install_requires\b/m.test(await textOf(appDir, 'setup.cfg'));
}

/** What a lock names is all there is: nothing that another package asks for comes beside it. */
async function ofLock(context: Context, name: string, lock: Lock, named: readonly NamedIndex[]): Promise<Installation> {
  const { urls, env } = authorized(lock.indexes, named, buildEnv(context));
  const { checked, unchecked } = requirementFiles({ ...lock, indexes: urls });
  const steps: Step[] = [];
  for (const [text, kind, options] of [
    [checked, 'checked', ['--require-hashes']],
    [unchecked, 'unchecked', []],
  ] as const) {
    if (text === '') continue;
    const file = await written(context, `${kind}-requirements.txt`, text);
    steps.push({ args: ['--no-deps', ...options, '-r', file], called: `pip install of ${name}` });
  }
  const text = checked + unchecked;
  const isOfSource = lock.isPackage || (await hasLocal(context.layout.appDir, text));
  return {
    steps: lock.isPackage ? [...steps, appAlone] : steps,
    dependsOn: isOfSource ? undefined : text,
    env,
    check: loginAdvice(lock.indexes, named),
  };
}

async function written({ layout }: Context, name: string, text: string): Promise<string> {
  const file = join(layout.scratchDir, name);
  await writeFile(file, text);
  return file;
}

async function textOf(appDir: string, name: string): Promise<string> {
  return (await readTextFile(join(appDir, name))) ?? '';
}
