/** What does a go.mod say of the app, and what is its web process? */
import { FlynnError } from '@flynn/kit/errors';
import type { Wish } from '../wanted-version.ts';
import { compareVersions } from '../wanted-version.ts';

export type GoModule = { path: string; goVersion: string | undefined };

export function parseGoMod(text: string): GoModule {
  const path = /^\s*module\s+"?([^\s"/][^\s"]*)"?/m.exec(text)?.[1];
  if (path === undefined)
    throw new FlynnError('invalid', 'go.mod names no module: it begins with a line like "module example.com/app"');
  return { path, goVersion: /^\s*go\s+(\d+(?:\.\d+)*)/m.exec(text)?.[1] };
}

/** A newer Go builds what was written for an older one, never the other way round. `invalid` names what there is. */
export function checkGoVersion({ version, file }: Wish, available: string, newest: string): void {
  if (compareVersions(version, available) <= 0) return;
  throw new FlynnError(
    'invalid',
    `${file} asks for Go ${version}, and there is ${newest}: write "go ${available}", or build with a buildpack that brings its own (BUILDPACK_URL)`,
  );
}

/** Names of the binaries → the command line of `web`; undefined when nothing tells which one it is. */
export function webBinary(names: readonly string[], module: string): string | undefined {
  const [only] = names;
  if (only !== undefined && names.length === 1) return `bin/${only}`;
  const named = [baseOf(module), 'web', 'server'].find((name) => names.includes(name));
  return named === undefined ? undefined : `bin/${named}`;
}

/** As `go build` names a binary: the last element, a major version at its end left out. */
export function baseOf(importPath: string): string {
  const parts = importPath.split('/');
  const last = parts.at(-1) ?? importPath;
  return /^v(?:[2-9]|[1-9]\d+)$/.test(last) && parts.length > 1 ? (parts.at(-2) ?? last) : last;
}
