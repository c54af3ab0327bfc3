/** Which of the versions there are does an app ask for? */
import { FlynnError } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import { join } from 'node:path';

export type Wish = {
  /** As it is written, like "3.13" or "3.13.2". */
  version: string;
  /** Where: ".python-version". */
  file: string;
};

/** The first line that is neither empty nor a comment, without the tool's name in front; undefined if there is none. */
export async function wishIn(appDir: string, file: string, prefix: string): Promise<Wish | undefined> {
  const text = await readTextFile(join(appDir, file));
  if (text === undefined) return undefined;
  return wishOf(text, file, prefix);
}

export function wishOf(text: string, file: string, prefix: string): Wish | undefined {
  const line = text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .map((each) => each.trim())
    .find((each) => each !== '' && !each.startsWith('#'));
  if (line === undefined) return undefined;
  const version = line.startsWith(`${prefix}-`) ? line.slice(prefix.length + 1) : line.replace(/^v(?=\d)/, '');
  if (!/^\d+(?:\.\d+){0,3}(?:[-.]?[a-z0-9]+)?$/i.test(version)) {
    throw new FlynnError(
      'invalid',
      `${file} says "${line.slice(0, 60)}", which is not a version: write one like ${prefix}-X.Y`,
    );
  }
  return { version, file };
}

/**
 * The newest there is, or the one that is asked for, told as far as versions are kept apart: of "3.13.2" the 3.13, since of
 * each there is only the newest correction. `invalid` names what there is.
 */
export function chooseVersion(tool: string, wish: Wish | undefined, available: readonly string[]): string {
  const newestFirst = available.toSorted((a, b) => compareVersions(b, a));
  const [newest] = newestFirst;
  if (newest === undefined) {
    throw new FlynnError('unavailable', `there is no ${tool} among the packages this cluster builds with`);
  }
  if (wish === undefined) return newest;
  const found = newestFirst.find(
    (version) => `${wish.version}.`.startsWith(`${version}.`) || `${version}.`.startsWith(`${wish.version}.`),
  );
  if (found !== undefined) return found;
  throw new FlynnError(
    'invalid',
    `${wish.file} asks for ${tool} ${wish.version}, and there is ${newestFirst.join(', ')}: ask for one of these, or build with a buildpack that brings its own (BUILDPACK_URL)`,
  );
}

/** By numbers, part for part. */
export function compareVersions(a: string, b: string): number {
  const parts = (text: string): number[] => text.split('.').map(Number);
  const [left, right] = [parts(a), parts(b)];
  for (let index = 0; index < Math.max(left.length, right.length); index += 1) {
    const difference = (left[index] ?? 0) - (right[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
