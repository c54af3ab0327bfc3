/** What does an app of Deno say of its tasks, and what of it is started? Pure. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { z } from 'zod';

const configSchema = z.object({
  tasks: z
    .record(
      z.string(),
      z.union([z.string(), z.object({ command: z.string().optional(), dependencies: z.unknown().optional() })]),
    )
    .default({}),
});

export type Tasks = Readonly<Record<string, Task>>;
export type Task = {
  /** Undefined where it only has others run. */
  command: string | undefined;
  /** Whether the command is all there is to do. */
  isAll: boolean;
};

/** Of deno.json or deno.jsonc: either may have comments. */
export function parseDenoConfig(text: string, file: string): Tasks {
  let value: unknown;
  try {
    value = JSON.parse(withoutComments(text.replace(/^\uFEFF/, '')));
  } catch (error) {
    throw new FlynnError('invalid', `${file} is not JSON: ${messageOf(error)}`, { cause: error });
  }
  const parsed = configSchema.safeParse(value);
  if (!parsed.success) throw new FlynnError('invalid', `${file} is not usable: ${z.prettifyError(parsed.error)}`);
  return Object.fromEntries(
    Object.entries(parsed.data.tasks).map(([name, task]) => [
      name,
      typeof task === 'string'
        ? { command: task, isAll: true }
        : { command: task.command, isAll: task.dependencies === undefined },
    ]),
  );
}

/** And without commas at the end of a list, which JSON has not. */
function withoutComments(text: string): string {
  const plain = text.replaceAll(/("(?:\\[^]|[^"\\])*"?)|\/\/[^\n]*|\/\*(?:(?!\*\/)[^])*(?:\*\/)?/g, '$1');
  return plain.replaceAll(/("(?:\\[^]|[^"\\])*"?)|,(?=\s*[}\]])/g, '$1');
}

/** Anything that only Deno's own shell or bash would have to interpret is not. */
const plainDeno = /^deno (?:run|serve)(?: +[\w@%+=:,./-]+)+$/;

/**
 * The command line of `web` where there is no Procfile. What the task `start` says if it only starts Deno, so that signals reach
 * the app; `deno serve` reads no PORT by itself. `file` is what is started where there is no such task.
 */
export function denoStartCommand(tasks: Tasks, file: string | undefined): string | undefined {
  const { start } = tasks;
  if (start === undefined) return file === undefined ? undefined : `deno run -A ${file}`;
  const line = start.command?.trim() ?? '';
  if (!start.isAll || !plainDeno.test(line)) return 'deno task start';
  return line.startsWith('deno serve ') && !/ --port\b/.test(line)
    ? line.replace('deno serve', 'deno serve --port $PORT')
    : line;
}

/** Of command lines the words that may be files of the app: what they import is fetched in the build. */
export function filesIn(lines: readonly string[]): string[] {
  const words = lines.flatMap((line) => line.split(/[\s;&|()'"]+/));
  return [
    ...new Set(words.map((word) => word.replace(/^\.\//, '')).filter((word) => /^\w[\w@+./-]*\.m?[jt]sx?$/.test(word))),
  ];
}

/** `invalid` for one that installs nothing but programs. */
export function checkDenoVersion(version: string): void {
  if (!/^[01]\./.test(version)) return;
  throw new FlynnError(
    'invalid',
    `.deno-version asks for Deno ${version}, whose "deno install" does not install an app's packages: ask for 2.0 or later, or commit a Dockerfile`,
  );
}
