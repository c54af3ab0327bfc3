/** Which programs does a Go module have? */
import { FlynnError } from '@flynn/kit/errors';
import type { BuildContext } from '../buildpack.ts';
import { runForOutput } from '../command.ts';

export const whatToCheck: readonly string[] = [
  'that "go build" works on a fresh clone, and that go.mod and go.sum are up to date: go mod tidy',
  'that the module proxy can be reached from the cluster; another is named with: flynn runner env set GOPROXY=URL. Modules of the repository itself need none: go mod vendor',
];

/** The packages that are programs, or those that GO_INSTALL_PACKAGE_SPEC names. */
export async function programsOf(context: BuildContext, env: Readonly<Record<string, string>>): Promise<string[]> {
  const named = (context.appEnv['GO_INSTALL_PACKAGE_SPEC'] ?? '').split(/\s+/).filter((spec) => spec !== '');
  context.out.line('Looking for programs, and fetching the modules that takes');
  const programs = (await listed(named.length > 0 ? named : ['./...'], context, env))
    .split('\n')
    .filter((line) => line !== '');
  if (programs.length > 0) return programs;
  throw new FlynnError(
    'invalid',
    'no package of this module is a program: one with "package main" and "func main()" has to be there',
  );
}

/** It is the first to fetch modules, and so the first to fail by them. */
async function listed(
  packages: readonly string[],
  { layout, signal }: BuildContext,
  env: Readonly<Record<string, string>>,
): Promise<string> {
  const format = '{{if eq .Name "main"}}{{.ImportPath}}{{end}}';
  try {
    return await runForOutput(['go', 'list', '-f', format, ...packages], { cwd: layout.appDir, env, signal });
  } catch (error) {
    if (!(error instanceof FlynnError) || error.code !== 'invalid') throw error;
    const checks = whatToCheck.map((each) => `- ${each}`).join('\n');
    throw new FlynnError('invalid', `${error.message.replace(` -f ${format}`, '')}\nCheck\n${checks}`, {
      cause: error,
    });
  }
}
