/** Which buildpacks build this app? */
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import { type BuildContext, type Buildpack, nothingCompiled } from './buildpack.ts';
import { bun } from './bun/bun.ts';
import { fetchBuildpack, withoutPassword } from './buildpack-source.ts';
import { customBuildpack, readBuildpacksFile } from './custom-buildpack.ts';
import { deno } from './deno/deno.ts';
import { elixir } from './elixir/elixir.ts';
import { go } from './go/go.ts';
import { java } from './java/java.ts';
import { type JavaScriptChoice, chooseJavaScript, siteSigns } from './javascript.ts';
import { nodejs } from './nodejs/nodejs.ts';
import { parsePackageJson } from './nodejs/package-json.ts';
import { exists } from './nodejs/toolchain.ts';
import { php } from './php/php.ts';
import { python } from './python/python.ts';
import { ruby } from './ruby/ruby.ts';
import { hasPrograms } from './rust/manifest.ts';
import { rust } from './rust/rust.ts';
import { staticSite } from './static-site.ts';
import { unbuiltIn } from './unbuilt.ts';

/** For apps that need nothing built: what they run is in the repository. */
const procfileOnly: Buildpack = {
  name: 'procfile',
  cacheFolders: [],
  detect: async ({ layout }) => ((await exists(join(layout.appDir, 'Procfile'))) ? 'Procfile' : undefined),
  compile: async () => nothingCompiled,
};

/** In the order they are tried. */
export const builtIns: readonly Buildpack[] = [
  ruby,
  bun,
  nodejs,
  python,
  java,
  php,
  go,
  rust,
  elixir,
  deno,
  staticSite,
  procfileOnly,
];

/** One app is for one of them, unless somebody names another. */
const ofJavaScript: ReadonlySet<Buildpack> = new Set([bun, deno, nodejs]);

/** As Heroku has buildpacks of their own for what one of ours builds. */
const otherNames: Readonly<Record<string, string>> = { gradle: 'java' };

const lookedFor: readonly string[] = [
  'Unable to select a buildpack. Looked for, in this order:',
  '- the variable BUILDPACK_URL of the app: flynn env set BUILDPACK_URL=https://…',
  '- a file .buildpacks',
  '- the buildpacks of an app.json',
  '- Gemfile (Ruby)',
  '- package.json with bun.lock or bun.lockb, or packageManager bun@… in it (Bun)',
  '- package.json (Node.js)',
  '- requirements.txt, Pipfile.lock, pyproject.toml or setup.py (Python)',
  '- pom.xml, build.gradle(.kts), settings.gradle(.kts), gradlew, or one .jar (Java)',
  '- composer.json, index.php or public/index.php (PHP)',
  '- go.mod (Go)',
  '- Cargo.toml (Rust)',
  '- mix.exs (Elixir)',
  '- deno.json, deno.jsonc or deno.lock (Deno)',
  '- static.json, Staticfile, index.html or public/index.html (static site)',
  '- Procfile',
];

type Detected = { buildpack: Buildpack; label: string };

/**
 * In the order of their turns. `recognize` tells what kind of app it is for this one, or throws `invalid`: it is asked when
 * those before have compiled, since what they made may be what this one recognizes.
 */
export type Selection = { buildpack: Buildpack; recognize: (context: BuildContext) => Promise<string> }[];

/**
 * BUILDPACK_URL, else `.buildpacks`, else those of app.json, else the first built-in one that recognizes the app. `invalid`
 * says what was looked for.
 */
export async function selectBuildpacks(context: BuildContext, ofAppJson: readonly string[] = []): Promise<Selection> {
  const { layout, appEnv, out } = context;
  const url = appEnv['BUILDPACK_URL']?.trim();
  if (url !== undefined && url !== '') return [await chosen(url, 'BUILDPACK_URL', context)];
  const ofFile = await readBuildpacksFile(layout.appDir);
  const [listed, by] = ofFile.length > 0 ? [ofFile, '.buildpacks'] : [ofAppJson, 'app.json'];
  if (listed.length > 0) {
    out.topic(`Using the ${listed.length} buildpack${listed.length === 1 ? '' : 's'} of ${by}`);
    const selection: Selection = [];
    for (const text of listed) selection.push(await chosen(text, by, context));
    return selection;
  }
  const names = await readdir(layout.appDir);
  const javaScript = await javaScriptOf(layout.appDir, names);
  const found: Detected[] = [];
  for (const buildpack of builtIns) {
    if (ofJavaScript.has(buildpack) && buildpack.name !== javaScript?.name) continue;
    if (buildpack === rust && (await isSiteOfRust(layout.appDir, names))) continue;
    const label = await buildpack.detect(context);
    if (label !== undefined) found.push({ buildpack, label });
  }
  const [first, ...others] = found;
  const unbuilt = unbuiltIn(names);
  if (first?.buildpack === procfileOnly && unbuilt !== undefined) throw new FlynnError('invalid', unbuilt);
  if (first !== undefined) {
    if (javaScript?.note !== undefined && first.buildpack === nodejs) out.warn(javaScript.note);
    const languages = others.filter(({ buildpack }) => buildpack !== procfileOnly && buildpack !== staticSite);
    if (languages.length > 0) tellOthers(first, languages, out);
    return [{ buildpack: first.buildpack, recognize: async () => first.label }];
  }
  const reason = unbuilt ?? 'None is at the top of the repository. Is the file committed?';
  throw new FlynnError('invalid', [...lookedFor, reason].join('\n'));
}

/** A library beside a site is for browsers, and what was built of it is part of the site. */
async function isSiteOfRust(appDir: string, names: readonly string[]): Promise<boolean> {
  const manifest = names.includes('Cargo.toml') ? await readTextFile(join(appDir, 'Cargo.toml')) : undefined;
  if (manifest === undefined || !siteSigns.some((sign) => names.includes(sign))) return false;
  return !hasPrograms(manifest, await readdir(join(appDir, 'src')).catch(() => []));
}

async function javaScriptOf(appDir: string, names: readonly string[]): Promise<JavaScriptChoice | undefined> {
  return chooseJavaScript(names, await packageManagerOf(appDir));
}

/** Undefined too where package.json cannot be read: who builds by it says so. */
async function packageManagerOf(appDir: string): Promise<string | undefined> {
  try {
    return parsePackageJson(await readFile(join(appDir, 'package.json'), 'utf8')).packageManager;
  } catch {
    return undefined;
  }
}

/** An app of two languages builds with one of them, unless somebody says in which order both are wanted. */
function tellOthers(first: Detected, others: readonly Detected[], out: BuildContext['out']): void {
  const names = others.map(({ label }) => label).join(', ');
  const listed = [...others, first].map(({ buildpack }) => buildpack.name).join('\\n');
  out.line(
    `This looks like ${names} too. It is built as ${first.label}; to build it as both, commit .buildpacks, its main language last:`,
  );
  out.line(`printf '${listed}\\n' > .buildpacks`);
}

async function chosen(text: string, by: string, context: BuildContext): Promise<Selection[number]> {
  const named = text.replace(/^(?:heroku|flynn)\//, '');
  const builtIn = builtIns.find(({ name }) => name === (otherNames[named] ?? named));
  if (builtIn === undefined) context.out.topic(`Fetching buildpack ${withoutPassword(text)}`);
  const buildpack = builtIn ?? (await customBuildpackOf(text, context));
  const recognize = async (then: BuildContext): Promise<string> => {
    const label = await buildpack.detect(then);
    if (label !== undefined) return label;
    throw new FlynnError(
      'invalid',
      `Unable to select a buildpack: ${by} names ${withoutPassword(text)}, whose detection does not recognize this app.`,
    );
  };
  return { buildpack, recognize };
}

async function customBuildpackOf(text: string, context: BuildContext): Promise<Buildpack> {
  const { dir, name } = await fetchBuildpack(text, context);
  return customBuildpack(dir, name);
}
