/** What does a pyproject.toml say of the app? */
import { z } from 'zod';
import type { NamedIndex } from './indexes.ts';
import { pythonMarkers } from './python-range.ts';
import { readToml } from '../toml.ts';

const poetryNeed = z.looseObject({
  extras: z.array(z.string()).default([]),
  markers: z.string().optional(),
  python: z.string().optional(),
  platform: z.string().optional(),
  optional: z.boolean().default(false),
});
const uvIndex = z.looseObject({ name: z.string().default(''), url: z.string(), default: z.boolean().default(false) });
/** Of Poetry the usual one is named without its address. */
const poetrySource = z.looseObject({ name: z.string(), url: z.string().optional(), priority: z.string().optional() });
const schema = z.object({
  'build-system': z.unknown().optional(),
  project: z
    .looseObject({
      dependencies: z.array(z.string()).default([]),
      /** What a build of the package says. */
      dynamic: z.array(z.string()).default([]),
    })
    .optional(),
  tool: z
    .looseObject({
      uv: z.looseObject({ index: z.array(uvIndex).default([]) }).optional(),
      poetry: z
        .looseObject({
          source: z.array(poetrySource).default([]),
          'package-mode': z.boolean().default(true),
          dependencies: z.record(z.string(), z.union([z.string(), poetryNeed, z.array(poetryNeed)])).default({}),
        })
        .optional(),
    })
    .optional(),
});

export type PyProject = Readonly<{
  /** Whether something says how to make a package of the app. */
  isPackage: boolean;
  /** Whether only such a build tells what the app needs. */
  isToldByBuild: boolean;
  /** As pip reads them: `name[extra]>=1 ; markers`. */
  requirements: readonly string[];
  /** Where it says that packages come from. */
  indexes: readonly NamedIndex[];
  /** What the app needs by itself, in production. */
  needs: readonly { name: string; extras: readonly string[]; markers: string | undefined }[];
}>;

export function readPyProject(text: string): PyProject {
  const { project, tool, 'build-system': buildSystem } = readToml(text, schema, { name: 'pyproject.toml' });
  const poetry = tool?.poetry;
  const requirements = project?.dependencies ?? [];
  const ofProject = requirements.map((requirement) => {
    const [, name = '', extras = '', markers] =
      /^\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?[^;]*(?:;\s*(.*))?$/.exec(requirement) ?? [];
    return { name, extras: extras.split(',').flatMap((extra) => extra.trim() || []), markers };
  });
  const ofPoetry = Object.entries(poetry?.dependencies ?? {})
    .filter(([name]) => name !== 'python')
    .flatMap(([name, given]) => [given].flat().map((need) => ({ name, need })))
    .flatMap(({ name, need }) => {
      if (typeof need === 'string') return [{ name, extras: [], markers: undefined }];
      return need.optional ? [] : [{ name, extras: need.extras, markers: markersOf(need) }];
    });
  const ofUv = (tool?.uv?.index ?? []).map(({ name, url, default: isDefault }) => ({ name, url, isDefault }));
  const sources = (poetry?.source ?? []).flatMap(({ name, url, priority }) =>
    url === undefined ? [] : [{ name, url, isDefault: priority === 'default' }],
  );
  return {
    isPackage: buildSystem !== undefined && (poetry?.['package-mode'] ?? true),
    isToldByBuild: poetry === undefined && project?.dynamic.includes('dependencies') === true,
    requirements,
    indexes: [...ofUv, ...sources],
    needs: [...ofProject, ...ofPoetry],
  };
}

function markersOf({ markers, python, platform }: z.output<typeof poetryNeed>): string | undefined {
  const all = [
    markers,
    python === undefined ? undefined : pythonMarkers(python),
    platform === undefined ? undefined : `sys_platform == '${platform}'`,
  ].filter((one) => one !== undefined);
  return all.length < 2 ? all[0] : all.map((one) => `(${one})`).join(' and ');
}
