/**
 * What do a Gradle build's own files say? They are programs, and are read as texts: whatever else they do only Gradle knows.
 * Pure.
 */
import { FlynnError } from '@flynn/kit/errors';
import { compareVersions } from '../wanted-version.ts';

/** The first that is there counts, as with Gradle. */
export const buildNames = ['build.gradle', 'build.gradle.kts'] as const;
export const settingsNames = ['settings.gradle', 'settings.gradle.kts'] as const;
export const signsOfGradle: readonly string[] = [...buildNames, ...settingsNames, 'gradlew'];

export type BuildFile = {
  /** From the top: "app/build.gradle.kts". */
  file: string;
  text: string;
};

/** Folders of the modules that settings include. */
export function modulesOf(settings: string): string[] {
  const lists = withoutComments(settings).matchAll(/\binclude\s*\(?((?:\s*["'][^"'\n]*["']\s*,?)+)/g);
  const names = [...lists].flatMap(([, list = '']) =>
    [...list.matchAll(/["']([^"']*)["']/g)].map(([, name = '']) => name),
  );
  const folders = names.map((name) => name.replace(/^:/, '').replaceAll(':', '/'));
  return [...new Set(folders)].filter(
    (folder) => /^[\w@+.-]+(?:\/[\w@+.-]+)*$/.test(folder) && !/(?:^|\/)\.\.?(?:\/|$)/.test(folder),
  );
}

/** What is run where the app says nothing, as words of a command. */
export function taskOf(builds: readonly BuildFile[]): string {
  const texts = builds.map(({ text }) => withoutComments(text));
  if (texts.some((text) => stage.test(text))) return 'stage';
  const plugins = texts.flatMap(pluginsOf);
  const has = (pattern: RegExp): boolean => plugins.some((plugin) => pattern.test(plugin));
  if (has(/spring\W?boot|springframework\.boot|quarkus/i)) return 'build -x check';
  if (has(/shadow/i)) return 'shadowJar';
  return has(/^application$|ktor|micronaut\W(?:minimal\W)?application|ratpack/i) ? 'installDist' : 'build -x check';
}

export function isOfMicronaut(builds: readonly BuildFile[]): boolean {
  return builds.some(({ text }) => /\bio\.micronaut\b|\bplugins\.micronaut\b/.test(withoutComments(text)));
}

/** As Groovy and Kotlin write that a task has this name. */
const stage =
  /^[ \t]*(?:task\s*\(?\s*["']?stage\b|(?:\w+\.)?(?:register|create)\s*(?:<[^>\n]*>)?\s*\(\s*["']stage["']|val\s+stage\s+by\s+tasks\b)/m;

/** Their ids; of an alias in a catalog what it is called there, which says as much. */
function pluginsOf(text: string): string[] {
  const named = text.matchAll(/\b(?:id|apply\s*\(?\s*plugin\s*[:=])\s*\(?\s*["']([\w.-]+)["']/g);
  const aliases = text.matchAll(/\balias\s*\(?\s*(\w+\.plugins\.[\w.]+)/g);
  const [, block = ''] = /^[ \t]*plugins\s*\{([^}]*)\}/m.exec(text) ?? [];
  const bare = block.matchAll(/^[ \t]*`?([a-z][\w-]*)`?[ \t]*;?[ \t]*$/gm);
  return [...named, ...aliases, ...bare].map(([, name = '']) => name);
}

export type JavaOfGradle = {
  version: string;
  file: string;
  /** Of a toolchain Gradle takes this Java and no newer one. */
  isExact: boolean;
};

const toolchains = [/\bJavaLanguageVersion\.of\s*\(\s*["']?(\d+)/g, /\bjvmToolchain\s*\(\s*(\d+)/g];
const targets = [
  /\boptions\.release(?:\.set\s*\(|\s*=)\s*(\d+)/g,
  /\b(?:source|target)Compatibility\s*(?:=|\()?\s*["']?(?:JavaVersion\.)?(?:toVersion\s*\(\s*["']?)?(?:VERSION_)?(\d[\d._]*)/g,
  /\bJvmTarget\.JVM_(\d+(?:_\d+)?)/g,
];

/** The newest that any of them names; a toolchain counts more than what is compiled for. Undefined where none is to be read. */
export function javaOfGradle(builds: readonly BuildFile[]): JavaOfGradle | undefined {
  const found = (patterns: readonly RegExp[], isExact: boolean): JavaOfGradle[] =>
    builds.flatMap(({ file, text }) =>
      patterns.flatMap((pattern) =>
        [...withoutComments(text).matchAll(pattern)].map(([, version = '']) => ({
          version: majorOf(version),
          file,
          isExact,
        })),
      ),
    );
  const newest = (all: JavaOfGradle[]): JavaOfGradle | undefined =>
    all.toSorted((a, b) => Number(b.version) - Number(a.version))[0];
  return newest(found(toolchains, true)) ?? newest(found(targets, false));
}

/** "21", "1.8" and "1_8". */
function majorOf(version: string): string {
  return /^(?:1[._])?(\d+)/.exec(version)?.[1] ?? version;
}

/** Which Gradle the wrapper fetches. Undefined where the address does not say. */
export function gradleOf(wrapperProperties: string): string | undefined {
  return /^[ \t]*distributionUrl[ \t]*[=:].*\bgradle-(\d+(?:\.\d+)*)[^/\n]*\.zip/m.exec(wrapperProperties)?.[1];
}

/** The first Gradle that runs on a Java, newest first. */
const firstGradle: readonly (readonly [java: number, gradle: string])[] = [
  [25, '9.1'],
  [24, '8.14'],
  [23, '8.10'],
  [22, '8.8'],
  [21, '8.5'],
];

/** Otherwise Gradle fails with a number of a class file that nobody knows. */
export function checkGradle(gradle: string | undefined, java: string): void {
  const [, first] = firstGradle.find(([each]) => Number(java) >= each) ?? [];
  if (gradle === undefined || first === undefined || compareVersions(gradle, first) >= 0) return;
  throw new FlynnError(
    'invalid',
    `gradle/wrapper/gradle-wrapper.properties names Gradle ${gradle}, which does not run on Java ${java}: ${first} is the first that does. Run "./gradlew wrapper --gradle-version ${first}", and commit what it writes`,
  );
}

const stringOrComment = /("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|\/\/.*|\/\*[^]*?\*\//g;

/** Addresses and patterns of files have what would begin one in their strings. */
function withoutComments(text: string): string {
  return text.replace(stringOrComment, (_all, string: string | undefined) => string ?? '');
}
