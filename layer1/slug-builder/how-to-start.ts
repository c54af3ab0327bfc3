/** What can somebody do whose app says nowhere how it is started? */
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import { firstThere } from './first-there.ts';
import { parsePackageJson, plainFile } from './nodejs/package-json.ts';
import { exists } from './nodejs/toolchain.ts';

/** What frameworks build that is started, and the line that starts it. */
const servers: readonly [file: string, line: string][] = [
  ['.output/server/index.mjs', 'node .output/server/index.mjs'],
  ['dist/server/entry.mjs', 'HOST=0.0.0.0 node dist/server/entry.mjs'],
  ['.next/standalone/server.js', 'HOSTNAME=0.0.0.0 node .next/standalone/server.js'],
  ['.next/BUILD_ID', 'next start -p $PORT'],
  ['build/server/index.js', 'react-router-serve build/server/index.js'],
  ['build/index.js', 'node build'],
];
/** Of a site that needs no program of its own. */
const sites = ['dist', 'build', 'out', '.output/public', '_site'] as const;
const usualMains = [
  'dist/main.js',
  'dist/server.js',
  'dist/index.js',
  'index.js',
  'app.js',
  'main.js',
  'index.mjs',
  'app.mjs',
];

const ofDeno =
  'Commit a Procfile with a line like "web: deno run -A server.ts", with the file that listens on $PORT; a task "start" in deno.json does as well.';

/** `buildpack` is that of its main language. */
export async function nothingStarts(appDir: string, buildpack: string | undefined): Promise<FlynnError> {
  const advice = isJavaScript(buildpack)
    ? await whatToDo(appDir, buildpack)
    : buildpack === 'deno'
      ? ofDeno
      : 'Commit a Procfile with a line that does, as "web: COMMAND": the command listens on the port in $PORT.';
  return new FlynnError('invalid', `Nothing says how to start this app. ${advice}`);
}

function isJavaScript(buildpack: string | undefined): buildpack is 'nodejs' | 'bun' {
  return buildpack === 'nodejs' || buildpack === 'bun';
}

async function whatToDo(appDir: string, buildpack: 'nodejs' | 'bun'): Promise<string> {
  const has = (file: string): Promise<boolean> => exists(join(appDir, file));
  for (const [file, line] of servers) if (await has(file)) return procfile(line, `The build made ${file}.`);
  for (const folder of sites) {
    if (!(await has(`${folder}/index.html`))) continue;
    return `The build made a site in ${folder}: to have it served, commit .buildpacks:\nprintf '${buildpack}\\nstatic\\n' > .buildpacks && git add .buildpacks`;
  }
  const program = buildpack === 'bun' ? 'bun' : 'node';
  const main = await mainOf(appDir);
  if (main !== undefined) return procfile(`${program} ${main}`, `There is ${main}.`);
  return `Commit a Procfile with a line like "web: ${program} server.js", with the file that listens on $PORT; a "start" script in package.json does as well.`;
}

function procfile(line: string, why: string): string {
  return `${why} To have it started, commit a Procfile:\necho 'web: ${line}' > Procfile && git add Procfile`;
}

async function mainOf(appDir: string): Promise<string | undefined> {
  const text = await readTextFile(join(appDir, 'package.json'));
  const named = plainFile(text === undefined ? undefined : parsePackageJson(text).main);
  return firstThere(appDir, [...named, ...usualMains]);
}
