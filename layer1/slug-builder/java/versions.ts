/** Which Java do an app's files ask for? */
import { FlynnError } from '@flynn/kit/errors';
import type { Wish } from '../wanted-version.ts';

/** `java.runtime.version` of system.properties, else `maven.compiler.release` and its like of pom.xml. */
export function javaWish(files: { systemProperties?: string | undefined; pom?: string | undefined }): Wish | undefined {
  const property = /^\s*java\.runtime\.version\s*[=:]\s*(\S+)/m.exec(files.systemProperties ?? '')?.[1];
  if (property !== undefined) return { version: majorOf(property, 'system.properties'), file: 'system.properties' };
  const element = /<(?:maven\.compiler\.release|java\.version|maven\.compiler\.target)>\s*([\d.]+)\s*</.exec(
    files.pom ?? '',
  )?.[1];
  return element === undefined ? undefined : { version: majorOf(element, 'pom.xml'), file: 'pom.xml' };
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

/** The jar that is the app among those a build made; undefined when there is none, or several that could be. */
export function runnableJar(names: readonly string[]): string | undefined {
  const jars = names.filter(
    (name) => name.endsWith('.jar') && !/(?:-(?:sources|javadoc|tests|plain)\.jar$)|^original-/.test(name),
  );
  return jars.length === 1 ? jars[0] : undefined;
}
