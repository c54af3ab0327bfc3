/** What does a poetry.lock install for production? */
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import { Conditions, always, narrowed } from './conditions.ts';
import { folderOf, isUsualIndex, type Lock, type LockedPackage, withMarkers } from './locked.ts';
import type { PyProject } from './pyproject.ts';
import { readToml } from '../toml.ts';

const groupMarkers = z.union([z.string(), z.record(z.string(), z.string())]);
const needSchema = z.looseObject({
  markers: z.string().optional(),
  extras: z.array(z.string()).default([]),
  optional: z.boolean().default(false),
});
const filesSchema = z.array(z.object({ hash: z.string() }));
const packageSchema = z.object({
  name: z.string(),
  version: z.string(),
  optional: z.boolean().default(false),
  /** Of Poetry 2: which groups have it, and under which markers. */
  groups: z.array(z.string()).optional(),
  markers: groupMarkers.optional(),
  files: filesSchema.default([]),
  dependencies: z
    .record(z.string(), z.union([z.string(), needSchema, z.array(z.union([z.string(), needSchema]))]))
    .default({}),
  extras: z.record(z.string(), z.array(z.string())).default({}),
  source: z
    .object({
      type: z.string(),
      url: z.string(),
      resolved_reference: z.string().optional(),
      subdirectory: z.string().optional(),
    })
    .optional(),
});
const lockSchema = z.object({
  package: z.array(packageSchema).default([]),
  /** Before Poetry 1.5 digests are here. */
  metadata: z.object({ files: z.record(z.string(), filesSchema).default({}) }).optional(),
});
type Package = z.output<typeof packageSchema>;

/** Without groups of development. Throws `invalid` for what is no such file. */
export function readPoetryLock(text: string, project: PyProject): Lock {
  const { package: packages, metadata } = readToml(text, lockSchema, { name: 'poetry.lock', anew: 'poetry lock' });
  const hashesOf = ({ name, files }: Package): string[] =>
    (files.length > 0 ? files : (metadata?.files[name] ?? [])).map(({ hash }) => hash);
  const found = packages.some(({ groups }) => groups !== undefined) ? ofMain(packages) : reached(packages, project);
  const indexes = new Set(found.flatMap(({ one: { source } }) => (source?.type === 'legacy' ? [source.url] : [])));
  return {
    packages: found.map(({ one, markers }) => lockedPackage(one, markers, hashesOf(one))),
    indexes: [...indexes].filter((url) => !isUsualIndex(url)),
    isPackage: project.isPackage,
  };
}

type Reached = { one: Package; markers: string | undefined };

function ofMain(packages: readonly Package[]): Reached[] {
  return packages
    .filter(({ groups, optional }) => !optional && groups?.includes('main') === true)
    .map((one) => ({ one, markers: typeof one.markers === 'string' ? one.markers : one.markers?.['main'] }));
}

/** Poetry before 2 does not say what belongs to what: what the app needs, and what that needs. */
function reached(packages: readonly Package[], { needs }: PyProject): Reached[] {
  const conditions = new Map<Package, Conditions>();
  const seen = new Map<string, Conditions>();
  const visit = (name: string, extras: readonly string[], way: ReadonlySet<string>): void => {
    for (const one of packages.filter((other) => normal(other.name) === normal(name))) {
      const key = JSON.stringify([one.name, one.version, ...extras]);
      const known = seen.get(key) ?? new Conditions();
      seen.set(key, known);
      const added = known.add(way);
      if (added === undefined) continue;
      const own = conditions.get(one) ?? new Conditions();
      conditions.set(one, own);
      own.add(added);
      const wanted = new Set(extras.flatMap((extra) => one.extras[extra] ?? []).map((need) => normal(nameOf(need))));
      for (const [needed, given] of Object.entries(one.dependencies)) {
        for (const need of [given].flat()) {
          const { markers, extras: more, optional } = typeof need === 'string' ? needSchema.parse({}) : need;
          if (optional && !wanted.has(normal(needed))) continue;
          visit(needed, more, narrowed(added, withoutExtra(markers)));
        }
      }
    }
  };
  for (const { name, extras, markers } of needs) visit(name, extras, narrowed(always, markers));
  const found = [...conditions].map(([one, { text }]) => ({ one, markers: text }));
  refuseSeveral(found);
  return found;
}

/** pip refuses two of a name with words that help nobody. Poetry 2 writes down which is for whom. */
function refuseSeveral(found: readonly Reached[]): void {
  for (const { one, markers } of found) {
    const other = found.find(
      (two) => two.one !== one && two.markers === markers && normal(two.one.name) === normal(one.name),
    );
    if (other === undefined) continue;
    throw new FlynnError(
      'invalid',
      `poetry.lock was written by a Poetry before 2, and does not say when ${one.name} is ${one.version} and when ${other.one.version}. Write it anew with Poetry 2: poetry lock`,
    );
  }
}

function lockedPackage(
  { name, version, source }: Package,
  markers: string | undefined,
  hashes: readonly string[],
): LockedPackage {
  const folder = source?.subdirectory === undefined ? '' : `#subdirectory=${source.subdirectory}`;
  const locked = (requirement: string, known: readonly string[]): LockedPackage => {
    return { requirement: withMarkers(requirement, markers), hashes: known };
  };
  if (source === undefined) return locked(`${name}==${version}`, hashes);
  const { type, url, resolved_reference: commit } = source;
  if (type === 'git') return locked(`${name} @ git+${url}${commit === undefined ? '' : `@${commit}`}${folder}`, []);
  if (type === 'url') return locked(`${name} @ ${url}${folder}`, hashes);
  if (type === 'directory' || type === 'file') return locked(folderOf(url), []);
  return locked(`${name}==${version}`, hashes);
}

/** An extra that is wanted is no condition any more, and pip knows of none here. */
function withoutExtra(markers: string | undefined): string | undefined {
  return markers?.replaceAll(/\bextra\s*==\s*(?:"[^"]*"|'[^']*')/g, 'python_version >= "3"');
}

/** "uvicorn[standard] (>=0.3)" is about uvicorn. */
function nameOf(need: string): string {
  return /^[A-Za-z0-9._-]+/.exec(need)?.[0] ?? need;
}

/** Names of packages are the same however their parts are joined. */
function normal(name: string): string {
  return name.toLowerCase().replaceAll(/[-_.]+/g, '-');
}
