/** What does a uv.lock install for production? */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { Conditions, always, narrowed } from './conditions.ts';
import { folderOf, isUsualIndex, type Lock, type LockedPackage, withMarkers } from './locked.ts';
import { readToml } from '../toml.ts';

const fileSchema = z.object({ url: z.string().optional(), hash: z.string().optional() });
const sourceSchema = z.object({
  registry: z.string().optional(),
  git: z.string().optional(),
  url: z.string().optional(),
  subdirectory: z.string().optional(),
  path: z.string().optional(),
  directory: z.string().optional(),
  editable: z.string().optional(),
  virtual: z.string().optional(),
});
const dependencySchema = z.object({
  name: z.string(),
  version: z.string().optional(),
  /** With the version, where there are several of the name. */
  source: sourceSchema.optional(),
  extra: z.array(z.string()).default([]),
  marker: z.string().optional(),
});
const packageSchema = z.object({
  name: z.string(),
  version: z.string().optional(),
  source: sourceSchema,
  dependencies: z.array(dependencySchema).default([]),
  'optional-dependencies': z.record(z.string(), z.array(dependencySchema)).default({}),
  sdist: fileSchema.optional(),
  wheels: z.array(fileSchema).default([]),
});
const lockSchema = z.object({
  package: z.array(packageSchema).default([]),
  manifest: z.object({ members: z.array(z.string()).default([]) }).optional(),
});
type Package = z.output<typeof packageSchema>;
type Dependency = z.output<typeof dependencySchema>;

/**
 * Without groups of development. Of a workspace whose root is no project all its members, as uv does. Throws `invalid` for what is
 * no such file.
 */
export function readUvLock(text: string): Lock {
  const { package: packages, manifest } = readToml(text, lockSchema, { name: 'uv.lock', anew: 'uv lock' });
  const app = packages.find(isRoot);
  const members = packages.filter(({ name }) => manifest?.members.includes(name) === true);
  const found = reached(packages, app === undefined ? members : [app]);
  const indexes = new Set(found.flatMap(({ one }) => one.source.registry ?? []));
  return {
    packages: found.flatMap(({ one, markers }) => lockedPackage(one, markers)),
    indexes: [...indexes].filter((url) => /^https?:/.test(url) && !isUsualIndex(url)),
    isPackage: app !== undefined && app.source.virtual === undefined,
  };
}

type Reached = { one: Package; markers: string | undefined };

function isRoot({ source }: Package): boolean {
  return [source.virtual, source.editable, source.directory].includes('.');
}

/** These and what they need, and what that needs; not the app itself. */
function reached(packages: readonly Package[], roots: readonly Package[]): Reached[] {
  const conditions = new Map<Package, Conditions>();
  /** With each extra it may need others. */
  const seen = new Map<string, Conditions>();
  const visit = (one: Package, extra: string | undefined, way: ReadonlySet<string>): void => {
    const known = seen.get(keyOf(one, extra)) ?? new Conditions();
    seen.set(keyOf(one, extra), known);
    const added = known.add(way);
    if (added === undefined) return;
    const own = conditions.get(one) ?? new Conditions();
    conditions.set(one, own);
    own.add(added);
    const needed = extra === undefined ? one.dependencies : (one['optional-dependencies'][extra] ?? []);
    for (const dependency of needed) {
      const next = narrowed(added, dependency.marker);
      for (const other of packagesOf(packages, dependency)) {
        for (const wanted of [undefined, ...dependency.extra]) visit(other, wanted, next);
      }
    }
  };
  for (const root of roots) visit(root, undefined, always);
  return [...conditions].filter(([one]) => !isRoot(one)).map(([one, { text }]) => ({ one, markers: text }));
}

function keyOf({ name, version, source }: Package, extra: string | undefined): string {
  return JSON.stringify([name, version, source, extra]);
}

/** A name may be there in several versions, and a version from several places: then who needs it says which. */
function packagesOf(packages: readonly Package[], { name, version, source }: Dependency): Package[] {
  return packages.filter(
    (one) =>
      one.name === name &&
      (version === undefined || one.version === version) &&
      (source === undefined || isDeepStrictEqual(one.source, source)),
  );
}

function lockedPackage(
  { name, version, source, sdist, wheels }: Package,
  markers: string | undefined,
): LockedPackage[] {
  const hashes = [sdist, ...wheels].flatMap((file) => file?.hash ?? []);
  const locked = (requirement: string, known: readonly string[] = []): LockedPackage[] => [
    { requirement: withMarkers(requirement, markers), hashes: known },
  ];
  if (source.registry !== undefined) return locked(`${name}==${version ?? ''}`, hashes);
  if (source.git !== undefined) return locked(`${name} @ ${gitUrl(source.git)}`);
  if (source.url !== undefined) {
    const folder = source.subdirectory === undefined ? '' : `#subdirectory=${source.subdirectory}`;
    return locked(`${name} @ ${source.url}${folder}`, hashes);
  }
  // What is only a place for others' names is not installed itself.
  const path = source.path ?? source.directory ?? source.editable;
  return path === undefined ? [] : locked(folderOf(path));
}

/** `https://host/x?subdirectory=a&rev=main#commit` as pip has it. */
function gitUrl(text: string): string {
  if (!URL.canParse(text)) return `git+${text}`;
  const url = new URL(text);
  const commit = url.hash.slice(1);
  const folder = url.searchParams.get('subdirectory');
  url.search = '';
  url.hash = '';
  return `git+${url.href}${commit === '' ? '' : `@${commit}`}${folder === null ? '' : `#subdirectory=${folder}`}`;
}
