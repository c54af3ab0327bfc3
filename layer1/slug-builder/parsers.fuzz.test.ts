/** Whatever is in a repository, reading it ends with an answer or with a clear `invalid`. The same cases every time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import * as fc from 'fast-check';
import { withoutBuildKit } from './buildkit.ts';
import { parseSource } from './buildpack-source.ts';
import { withCopyStages } from './copy-stages.ts';
import { parseRelease } from './custom-buildpack.ts';
import { withPlainBases } from './dockerfile.ts';
import { checkGoVersion, parseGoMod } from './go/modules.ts';
import { checkGradle, gradleOf, javaOfGradle, modulesOf, taskOf } from './java/gradle-files.ts';
import { chooseJava, javaWish } from './java/versions.ts';
import { denoStartCommand, filesIn, parseDenoConfig } from './deno/config.ts';
import { rangeOf } from './nodejs/engines.ts';
import { chooseManager, isBerryLockfile, pnpmRangeOf } from './nodejs/lockfiles.ts';
import { bunStartCommand, parsePackageJson, startCommand } from './nodejs/package-json.ts';
import { parseComposerJson, satisfiesComposer } from './php/composer-json.ts';
import { parseProcfile } from './procfile.ts';
import { requirementFiles } from './python/locked.ts';
import { readPipfileLock } from './python/pipfile.ts';
import { readPoetryLock } from './python/poetry-lock.ts';
import { readPyProject } from './python/pyproject.ts';
import { readUvLock } from './python/uv-lock.ts';
import { checkGemfileRuby, rubyOfGemfile, rubyOfLock } from './ruby/gemfile.ts';
import { createIgnore } from './slugignore.ts';
import { readSettings } from './static-settings.ts';
import { parseModules } from './submodules.ts';
import { chooseVersion, wishOf } from './wanted-version.ts';

const seed = 20_260_101;

/** What such files are made of, and what they never should be. */
const ofYaml = [
  'web',
  ':',
  ' ',
  '\n',
  '\r\n',
  '\t',
  '#',
  '"',
  "'",
  '{',
  '}',
  '[',
  ']',
  ',',
  '- ',
  '*a',
  '&a',
  '!!js',
  '<<: ',
  '%',
  '|',
  '>',
];
const ofVersions = [
  'ruby ',
  'go ',
  'module ',
  'java.runtime.version=',
  '<java.version>',
  'jvmToolchain(',
  'gradle-8.zip',
  'python-',
  'v',
  '3',
  '.',
  '13',
  '~>',
  '^',
  '||',
  '..',
];
const ofTrouble = [
  '\0',
  '\uFEFF',
  '\uD800',
  '😀',
  'ü',
  '__proto__',
  'constructor',
  'null',
  '1e999',
  '-0',
  '/',
  '\\',
  '@',
  '`',
  'root:',
];
const pieces = [...ofYaml, ...ofVersions, ...ofTrouble, 'default_process_types:'];
const soup = fc.array(fc.constantFrom(...pieces), { maxLength: 40 }).map((each) => each.join(''));
const text = fc.oneof(soup, fc.string({ unit: 'binary', maxLength: 200 }));
const json = fc.oneof(text, fc.json({ maxDepth: 3 }), wellFormed());

/** Objects with the keys that are read, and values of any type under them. */
function wellFormed(): fc.Arbitrary<string> {
  const keys = [
    'require',
    'default',
    'engines',
    'scripts',
    'dependencies',
    'extra',
    'root',
    'routes',
    'redirects',
    'headers',
    'error_page',
    'config_vars',
    'default_process_types',
  ];
  const record = fc.dictionary(
    fc.constantFrom(...keys),
    fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.object({ maxDepth: 2 })),
    {
      maxKeys: 5,
    },
  );
  return record.map((value) => JSON.stringify(value));
}

const parsers: [string, fc.Arbitrary<string>, (given: string) => unknown][] = [
  ['Procfile', text, parseProcfile],
  ["a buildpack's release", json, parseRelease],
  ['static.json', json, (given) => readSettings({ staticJson: given })],
  ['Dockerfile', text, (given) => withPlainBases(withoutBuildKit(`FROM x\nRUN ${given}`).dockerfile, {})],
  [
    'COPY',
    text,
    (given) => staged(`FROM scratch\nARG A=${given}\nCOPY --chmod=$A ${given} <<EOF ${given}\n${given}\nEOF\n`),
  ],
  ['Staticfile', text, (given) => readSettings({ staticfile: given })],
  ['package.json', json, (given) => startCommand(parsePackageJson(given), 'npm', false)],
  ['package.json of Bun', json, (given) => bunStartCommand(parsePackageJson(given), undefined)],
  ['deno.json', json, (given) => denoStartCommand(parseDenoConfig(given, 'deno.json'), undefined)],
  ['deno.jsonc', text, (given) => filesIn(Object.keys(parseDenoConfig(`{"tasks":{}}/*${given}`, 'deno.jsonc')))],
  ['engines', text, (given) => rangeOf('node', given)],
  ['packageManager', text, (given) => chooseManager(['yarn.lock'], given)],
  ['lockfiles', text, (given) => [pnpmRangeOf(given), isBerryLockfile(given)]],
  ['composer.json', json, parseComposerJson],
  ['a constraint of Composer', text, (given) => satisfiesComposer('8.4.1', given)],
  ['Pipfile.lock', json, (given) => requirementFiles(readPipfileLock(given))],
  [
    'uv.lock',
    text,
    (given) => requirementFiles(readUvLock(`[[package]]\nname = "a"\nsource = { git = "${given}" }\n${given}`)),
  ],
  [
    'pyproject.toml and poetry.lock',
    text,
    (given) => readPoetryLock(given, readPyProject(`[project]\ndependencies = ["${given}"]`)),
  ],
  [
    'go.mod',
    text,
    (given) => checkGoVersion({ version: parseGoMod(given).goVersion ?? '1', file: 'go.mod' }, '1.24.4', '1.24'),
  ],
  ['Gemfile', text, (given) => checkGemfileRuby(rubyOfGemfile(`ruby "${given}"`) ?? '', '3.3.1')],
  ['Gemfile.lock', text, rubyOfLock],
  ['.ruby-version', text, (given) => chooseVersion('Ruby', wishOf(given, '.ruby-version', 'ruby'), ['3.3'])],
  [
    'system.properties and pom.xml',
    text,
    (given) => chooseJava(javaWish({ systemProperties: given, pom: given }), ['21']),
  ],
  [
    'build.gradle',
    text,
    (given) => {
      const builds = [{ file: 'build.gradle', text: `plugins {${given}` }];
      chooseJava(javaOfGradle(builds), ['21']);
      checkGradle(gradleOf(`distributionUrl=${given}`), '21');
      return [taskOf(builds), modulesOf(`include ${given}`)];
    },
  ],
  ['.gitmodules', text, parseModules],
  ['.slugignore', text, (given) => createIgnore(given)('a/b c/d.md', false)],
  ['BUILDPACK_URL', text, parseSource],
];

function staged(dockerfile: string): unknown {
  const { dockerfile: plain, documents } = withoutBuildKit(dockerfile);
  return withCopyStages(withPlainBases(plain, {}), { documents, args: {}, bases: new Map() });
}

for (const [name, arbitrary, parse] of parsers) {
  test(`any ${name} is read or clearly invalid`, () => {
    fc.assert(
      fc.property(arbitrary, (given) => {
        try {
          parse(given);
        } catch (error) {
          assert.ok(
            error instanceof FlynnError && error.code === 'invalid',
            `${String(error)} for ${JSON.stringify(given)}`,
          );
          assert.ok(error.message.length > 10 && error.message.length < 5_000, error.message);
        }
      }),
      { seed, numRuns: 600 },
    );
  });
}
