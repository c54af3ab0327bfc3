/** Runs a language's own tool on the app, and says what to check when it fails. */
import { FlynnError } from '@flynn/kit/errors';
import type { BuildContext } from './buildpack.ts';
import { exitReason, runShown } from './command.ts';

export async function runTool(
  command: readonly [string, ...string[]],
  options: {
    context: BuildContext;
    env: Readonly<Record<string, string>>;
    /** What people call it: "pip install -r requirements.txt". */
    called: string;
    check: readonly string[];
    /** Its stdout is for that, and not shown. */
    onStdout?: (chunk: Buffer) => void;
  },
): Promise<void> {
  const { context, env, called, check, onStdout } = options;
  const { layout, signal, out } = context;
  const code = await runShown(command, { cwd: layout.appDir, env, signal, out, onStdout });
  if (code === 0) return;
  throw new FlynnError(
    'invalid',
    `"${called}" failed with exit code ${code}${exitReason(code)}: its output is above.\nCheck\n${check.map((each) => `- ${each}`).join('\n')}`,
  );
}
