/** How is node-gyp told of the headers that native packages are compiled against? */
import { join } from 'node:path';
import { readJsonFile } from '@flynn/kit/files';
import { z } from 'zod';
import { isInRange } from './engines.ts';
import type { ManagerName } from './lockfiles.ts';

const versionSchema = z.object({ version: z.string() });

/**
 * Variables for a build. Since version 11.4 node-gyp reads a setting from `npm_package_config_node_gyp_*`; the older name
 * alone is one of npm's own settings to npm, which warns of it at every step from version 11 on.
 */
export async function headerSettings(options: {
  includeDir: string | undefined;
  program: ManagerName;
  /** Of the npm that the build has. */
  npmLib: string;
}): Promise<Record<string, string>> {
  const { includeDir, program, npmLib } = options;
  if (includeDir === undefined) return {};
  const settings = { npm_package_config_node_gyp_nodedir: includeDir };
  // Other programs bring a node-gyp of their own, of whatever age, and warn of nothing.
  const gyp =
    program === 'npm'
      ? await readJsonFile(join(npmLib, 'node_modules/node-gyp/package.json'), versionSchema)
      : undefined;
  const isNew = gyp !== undefined && isInRange(gyp.version, '>=11.4.0');
  return isNew ? settings : { ...settings, npm_config_nodedir: includeDir };
}
