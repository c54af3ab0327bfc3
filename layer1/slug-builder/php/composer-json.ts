/** Which PHP and which extensions does a composer.json ask for? */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import semver from 'semver';
import { z } from 'zod';

const composerSchema = z.object({
  // Composer itself writes an empty list where an object would be empty.
  require: z
    .union([
      z.record(z.string(), z.string()),
      z
        .array(z.unknown())
        .max(0)
        .transform(() => ({})),
    ])
    .default({}),
  extra: z
    .looseObject({ flynn: z.object({ docroot: z.string().optional() }).optional() })
    .optional()
    .catch(undefined),
});

export type ComposerJson = { php: string | undefined; extensions: string[]; docroot: string | undefined };

export function parseComposerJson(text: string): ComposerJson {
  let parsed: z.output<typeof composerSchema>;
  try {
    parsed = composerSchema.parse(JSON.parse(text.replace(/^\uFEFF/, '')));
  } catch (error) {
    throw new FlynnError('invalid', `composer.json is not usable: ${messageOf(error)}`, { cause: error });
  }
  const required: Record<string, string> = parsed.require;
  return {
    php: required['php'],
    extensions: Object.keys(required).flatMap((name) => (name.startsWith('ext-') ? [name.slice(4).toLowerCase()] : [])),
    docroot: parsed.extra?.flynn?.docroot,
  };
}

/** `invalid` names what there is. */
export function checkPhp(constraint: string | undefined, version: string): void {
  if (constraint === undefined || satisfiesComposer(version, constraint)) return;
  throw new FlynnError(
    'invalid',
    `composer.json asks for php "${constraint}", and there is ${version}: write one that it satisfies, or build with a buildpack that brings its own (BUILDPACK_URL)`,
  );
}

/** Composer's constraints, which npm's ranges nearly are. What is none of them is left to Composer to judge. */
export function satisfiesComposer(version: string, constraint: string): boolean {
  const range = constraint
    .replace(/@\w+/g, '')
    .split(/\s*\|\|?\s*/)
    .map((each) =>
      each
        .replaceAll(',', ' ')
        .replace(/~(\d+\.\d+)(?![.\d])/g, '^$1')
        .trim(),
    )
    .join(' || ');
  return semver.validRange(range) === null || semver.satisfies(version, range);
}

const packageOfExtension: Readonly<Record<string, string>> = {
  mysqli: 'mysql',
  mysqlnd: 'mysql',
  pdo_mysql: 'mysql',
  pdo_pgsql: 'pgsql',
  pdo_sqlite: 'sqlite3',
  dom: 'xml',
  simplexml: 'xml',
  xmlreader: 'xml',
  xmlwriter: 'xml',
  xsl: 'xml',
};

/**
 * Debian's packages of extensions: those that apps usually expect, and those asked for. What has no package is built in, or
 * missed by Composer.
 */
export function extensionPackages(
  version: string,
  extensions: readonly string[],
  available: readonly string[],
): string[] {
  const usual = ['bcmath', 'curl', 'gd', 'intl', 'mbstring', 'mysql', 'opcache', 'pgsql', 'sqlite3', 'xml', 'zip'];
  const wanted = new Set([...usual, ...extensions.map((name) => packageOfExtension[name] ?? name)]);
  return [...wanted].sort().flatMap((name) => (available.includes(name) ? [`php${version}-${name}`] : []));
}
