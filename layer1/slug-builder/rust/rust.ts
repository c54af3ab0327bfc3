/** The Rust buildpack: Debian's Cargo builds the programs. None of the toolchain, and nothing else of target/, is in the slug. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext, Buildpack, Compiled } from '../buildpack.ts';
import { DebianToolchain } from '../debian/toolchain.ts';
import { exists } from '../nodejs/toolchain.ts';
import { writeProfileScript } from '../runtime-env.ts';
import { whileFilling } from '../tool-store.ts';
import type { Wish } from '../wanted-version.ts';
import { type Program, placeOf, webCommand } from './artifacts.ts';
import { buildPrograms, cargoEnv, cargoExports } from './cargo-build.ts';
import { writeCargoConfig } from './cargo-home.ts';
import { prepareTarget } from './kept-target.ts';
import { parseManifest } from './manifest.ts';
import { checkRust, newestRust, rustLibraries, wishOfToolchain } from './versions.ts';

export const rust: Buildpack = {
  name: 'rust',
  cacheFolders: ['debian', 'rust'],
  detect: async ({ layout }) => ((await exists(join(layout.appDir, 'Cargo.toml'))) ? 'Rust' : undefined),
  compile,
};

/** What a job would otherwise be told by Rocket's own names. */
const rocketEnv = { ROCKET_ADDRESS: '0.0.0.0', ROCKET_PORT: '${PORT-8000}' };

async function compile(context: BuildContext): Promise<Compiled> {
  const { layout } = context;
  const manifest = parseManifest(await readFile(join(layout.appDir, 'Cargo.toml'), 'utf8'));
  const debian = new DebianToolchain(context);
  const dir = await installRust(context, debian, manifest.wish);
  const env = await cargoEnv(context, dir);

  const store = join(layout.cacheDir, 'rust');
  await writeCargoConfig(env.CARGO_HOME, env);
  await prepareTarget(store, layout.appDir, context.nowMs);
  let programs: Program[] = [];
  const isFilled = await whileFilling(store, context, async () => {
    programs = await buildPrograms(context, env);
  });
  const web = webCommand(programs, manifest.main);
  if (web === undefined && !(await exists(join(layout.appDir, 'Procfile'))))
    for (const line of whichIsWeb(programs, manifest.main)) context.out.line(line);
  if (manifest.isRocket) await writeProfileScript(layout.appDir, 'rust', { paths: {}, values: rocketEnv });
  return {
    processTypes: web === undefined ? {} : { web },
    configVars: {},
    runtimes: [],
    exports: cargoExports(context, dir),
    isCacheChanged: debian.isChanged || isFilled,
  };
}

/** Answers the folder it is in. */
async function installRust(
  { layout, out }: BuildContext,
  debian: DebianToolchain,
  ofManifest: Wish | undefined,
): Promise<string> {
  out.topic('Installing Rust');
  const wishes: Wish[] = [];
  // The former name counts where there are both.
  for (const file of ['rust-toolchain', 'rust-toolchain.toml']) {
    const text = await readTextFile(join(layout.appDir, file));
    if (text === undefined) continue;
    const wish = wishOfToolchain(text, file);
    if (wish !== undefined) wishes.push(wish);
    break;
  }
  if (ofManifest !== undefined) wishes.push(ofManifest);
  const { version, packages } = newestRust(await debian.versions('libstd-rust-', rustLibraries));
  for (const wish of wishes) checkRust(wish, version);
  // The builder's own compiler and linker work where they are.
  const { name, dir } = await debian.install('rust', packages, { beside: ['build-essential'] });
  await debian.tidy();
  const [wish] = wishes;
  const said = wish === undefined ? 'No rust-toolchain.toml' : `${wish.file} says ${wish.version}`;
  out.line(`${said}: Rust ${name.split('-')[1] ?? version}`);
  return dir;
}

/** What to do, for people. A library alone may be for the language of the next buildpack, which starts the app. */
export function whichIsWeb(programs: readonly Program[], main: string | undefined): string[] {
  const [first, ...others] = programs.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  if (first === undefined)
    return [
      'Nothing of this Cargo.toml is a program: that takes a package with src/main.rs or a [[bin]], which is among the default-members of a workspace',
    ];
  const names = [first, ...others].map(({ name }) => name).join(', ');
  const called =
    main === undefined ? 'there is no package at the top to be called like one of them' : `none is called ${main}`;
  return [
    `There are ${programs.length} programs, and ${called}: ${names}. A Procfile says which one is started:`,
    `echo 'web: ${placeOf(first)}' > Procfile && git add Procfile`,
  ];
}
