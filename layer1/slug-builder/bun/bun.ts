/** The Bun buildpack: that of Node.js with Bun as the package manager, and as what the app starts with. */
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { BuildContext, Buildpack, Compiled } from '../buildpack.ts';
import { firstThere } from '../first-there.ts';
import { chooseBun } from '../nodejs/lockfiles.ts';
import { compileProject } from '../nodejs/nodejs.ts';
import { type PackageJson, bunStartCommand, parsePackageJson, plainFile } from '../nodejs/package-json.ts';
import { exists } from '../nodejs/toolchain.ts';

const usualFiles = ['index.ts', 'index.tsx', 'index.js', 'server.ts', 'server.js'] as const;

export const bun: Buildpack = {
  name: 'bun',
  cacheFolders: ['toolchains', 'nodejs', 'nodejs-downloads'],
  detect: async ({ layout }) => ((await exists(join(layout.appDir, 'package.json'))) ? 'Bun' : undefined),
  compile,
};

async function compile(context: BuildContext): Promise<Compiled> {
  const { appDir } = context.layout;
  const manifest = parsePackageJson(await readFile(join(appDir, 'package.json'), 'utf8'));
  const chosen = chooseBun(await readdir(appDir));
  // Programs of packages begin with "#!/usr/bin/env node", and most frameworks are tried with Node.js alone.
  context.out.topic('Installing Bun and Node.js');
  return compileProject(context, manifest, chosen, async () =>
    bunStartCommand(manifest, await firstThere(appDir, filesToStart(manifest))),
  );
}

function filesToStart({ module, main }: PackageJson): string[] {
  return [...plainFile(module), ...plainFile(main), ...usualFiles];
}
