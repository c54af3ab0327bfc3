/** What of its repository is an app built from? Kept in the app's metadata. Pure. */
import { FlynnError } from '@flynn/kit/errors';

export const placeNames = ['folder', 'dockerfile'] as const;
export type PlaceName = (typeof placeNames)[number];

/**
 * `folder`: the top of what is built, a path from the repository's top; without one that is it. `dockerfile`: a path from
 * there; without one a file of that name at the top counts, unless buildpacks were chosen. Neither begins or ends with a slash.
 */
export type BuildPlace = { readonly [Name in PlaceName]?: string };

type Meta = Readonly<Record<string, string>>;

/** Where an app's wish is. */
export const placeMeta: Readonly<Record<PlaceName, string>> = {
  folder: 'build.folder',
  dockerfile: 'build.dockerfile',
};

const maxPathLength = 1_000;

/** Throws `invalid` for what is no path: that it is not said would be another app. */
export function placeOf(meta: Meta): BuildPlace {
  const entries = placeNames.flatMap((name): [PlaceName, string][] => {
    const text = meta[placeMeta[name]];
    return text === undefined ? [] : [[name, pathOf(name, text)]];
  });
  return Object.fromEntries(entries);
}

/** Throws `invalid` for a path that cannot be one, and was not there `before`. */
export function checkBuildPlace(meta: Meta, before: Meta = {}): void {
  for (const name of placeNames) {
    const text = meta[placeMeta[name]];
    if (text !== undefined && text !== before[placeMeta[name]]) pathOf(name, text);
  }
}

export function isSamePlace(one: BuildPlace, other: BuildPlace): boolean {
  return placeNames.every((name) => one[name] === other[name]);
}

/** The place among what an operation is told, or what a push says of itself. */
export function placeIn(told: { readonly [Name in PlaceName]?: string | undefined }): BuildPlace {
  const entries = placeNames.flatMap((name): [PlaceName, string][] => {
    const path = told[name];
    return path === undefined ? [] : [[name, path]];
  });
  return Object.fromEntries(entries);
}

/** As it is compared and handed on: without "./" and slashes that say nothing. */
export function pathOf(name: PlaceName, text: string): string {
  const refuse = (why: string): never => {
    throw new FlynnError('invalid', `the ${name} that builds are from is no path: "${text.slice(0, 100)}" ${why}`);
  };
  const from = name === 'folder' ? "the repository's top" : 'the top of what is built';
  if (text.length > maxPathLength) refuse(`is longer than ${maxPathLength} characters`);
  if (text.startsWith('/')) refuse(`begins with a slash: say it from ${from}, as ${examples[name]}`);
  if (/[\u0000-\u001F\u007F\\]/.test(text)) refuse('has a character that paths in a repository are not to have');
  const parts = text.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..')) refuse(`leads upwards: say it from ${from}, as ${examples[name]}`);
  if (parts.length === 0) refuse(`is the top itself: flynn build unset ${name}`);
  if (name === 'dockerfile' && text.endsWith('/')) refuse(`is a folder: name the file, as ${examples[name]}`);
  return parts.join('/');
}

const examples: Readonly<Record<PlaceName, string>> = { folder: 'apps/web', dockerfile: 'deploy/web.Dockerfile' };
