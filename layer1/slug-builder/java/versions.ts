/** Which Java do an app's files ask for? */
import { FlynnError } from '@flynn/kit/errors';
import type { Wish } from '../wanted-version.ts';

/** `java.runtime.version` of system.properties, else `maven.compiler.release` and its like of pom.xml. */
export function javaWish(files: { systemProperties?: string | undefined; pom?: string | undefined }): Wish | undefined {
  const property = /^\s*java\.runtime\.version\s*[=:]\s*(\S+)/m.exec(files.systemProperties ?? '')?.[1];
  if (property !== undefined) return { version: majorOf(property, 'system.properties'), file: 'system.properties' };
  const version = versionOfPom(files.pom ?? '');
  return version === undefined ? undefined : { version: majorOf(version, 'pom.xml'), file: 'pom.xml' };
}

const properties = ['maven.compiler.release', 'java.version', 'maven.compiler.target'];

/** Of its properties the first, else what it configures the compiler with. */
function versionOfPom(text: string): string | undefined {
  const pom = text.replace(/<!--[^]*?-->/g, '');
  const [, plugin = ''] = /<artifactId>\s*maven-compiler-plugin\s*<\/artifactId>([^]*?)<\/plugin>/.exec(pom) ?? [];
  const wanted = [...valuesOf(pom, properties), ...valuesOf(plugin, ['release', 'target'])];
  return wanted.map((value) => resolved(value, pom)).find((value) => value !== undefined);
}

function valuesOf(xml: string, names: readonly string[]): string[] {
  const pattern = new RegExp(`<(?:${names.map((name) => RegExp.escape(name)).join('|')})>\\s*([^<\\s]+)\\s*<`, 'g');
  return [...xml.matchAll(pattern)].map(([, value = '']) => value);
}

/** Undefined for what no property of the pom itself makes a version of. */
function resolved(value: string, pom: string, most = 5): string | undefined {
  const [, name] = /^\$\{([\w.-]+)\}$/.exec(value) ?? [];
  if (name === undefined) return /^[\d.]+$/.test(value) ? value : undefined;
  const [next] = valuesOf(pom, [name]);
  return next === undefined || most === 0 ? undefined : resolved(next, pom, most - 1);
}

/** "21", "21.0.3" and "openjdk-21" are 21; "1.8" is 8. */
function majorOf(text: string, file: string): string {
  const [, legacy, major] = /^(?:[a-z]+-)?(?:(1)\.)?(\d+)(?:[.+_]\S*)?$/i.exec(text) ?? [];
  if (major === undefined) {
    throw new FlynnError(
      'invalid',
      `${file} asks for Java "${text.slice(0, 40)}", which is not a version: write one like 21`,
    );
  }
  return legacy !== undefined && major === '0' ? legacy : major;
}

/** Compiling for an older Java works with any newer one; running what asks for a newer one does not. */
export function chooseJava(wish: Wish | undefined, available: readonly string[]): string {
  const sorted = available.map(Number).sort((a, b) => a - b);
  const [oldest] = sorted;
  if (oldest === undefined)
    throw new FlynnError('unavailable', 'there is no Java among the packages this cluster builds with');
  if (wish === undefined) return String(oldest);
  const found = sorted.find((version) => version >= Number(wish.version));
  if (found !== undefined) return String(found);
  throw new FlynnError(
    'invalid',
    `${wish.file} asks for Java ${wish.version}, and there is ${sorted.join(', ')}: ask for one of these, or build with a buildpack that brings its own (BUILDPACK_URL)`,
  );
}
