/** Debian's Erlang and Elixir: where they are, and how programs are led there. */
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DebianToolchain } from '../debian/toolchain.ts';
import { exists } from '../nodejs/toolchain.ts';
import { type RuntimeEnv, debianPaths } from '../runtime-env.ts';

/** What Elixir needs, and what libraries of it, Phoenix and Ecto call for. Hex is there: it has not to be fetched. */
const packages = [
  'elixir',
  'erlang-hex',
  'erlang-dev',
  'erlang-eunit',
  'erlang-os-mon',
  'erlang-syntax-tools',
  'erlang-xmerl',
] as const;
/** Of what rebar3 names as needed too, for tasks that Mix never asks it for: a desktop comes with it. */
const unasked = ['erlang-common-test', 'erlang-dialyzer', 'erlang-edoc', 'erlang-reltool'] as const;

export type Erlang = { name: string; dir: string; rebar: string };

export async function installErlang(debian: DebianToolchain): Promise<Erlang> {
  const { name, dir } = await debian.install('elixir', packages);
  await leadScripts(dir);
  const { dir: beside } = await debian.install('rebar', ['rebar3'], { beside: [...packages, ...unasked] });
  return { name, dir, rebar: join(beside, 'usr/bin/rebar3') };
}

export function elixirEnv(dir: string, mixEnv: string): RuntimeEnv {
  return {
    paths: debianPaths(dir),
    values: {
      MIX_ENV: mixEnv,
      // Otherwise Elixir takes names and what it prints for Latin-1.
      LANG: 'C.UTF-8',
      // A release would open ports to others of its name, with a word that is in the slug.
      RELEASE_DISTRIBUTION: 'none',
    },
  };
}

/** Erlang's scripts have the folder that it is in on a whole machine. */
export async function leadScripts(dir: string): Promise<void> {
  const root = join(dir, 'usr/lib/erlang');
  const erts = (await readdir(root)).filter((name) => name.startsWith('erts-'));
  for (const folder of ['bin', ...erts.map((name) => join(name, 'bin'))]) {
    for (const script of ['erl', 'start']) {
      const path = join(root, folder, script);
      if (!(await exists(path))) continue;
      const text = await readFile(path, 'utf8');
      await writeFile(path, text.replaceAll(/(^|[=\s"])\/usr\/lib\/erlang(?=$|[\s"/])/gm, `$1${root}`));
    }
  }
}
