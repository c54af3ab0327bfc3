/** What did a build by Cargo make, as it tells it itself? Pure. */
import { posix } from 'node:path';
import { z } from 'zod';

export type Program = {
  name: string;
  /** Below the target folder: "release/web". */
  path: string;
};

export type Artifacts = {
  programs: Program[];
  /** Marks in the names of what belongs to crates that are not of the app itself. */
  ofOthers: ReadonlySet<string>;
};

const messageSchema = z.object({
  package_id: z.string(),
  target: z.object({ name: z.string(), kind: z.array(z.string()) }).optional(),
  filenames: z.array(z.string()).default([]),
  executable: z.string().nullish(),
  /** Of a build script that was run. */
  out_dir: z.string().optional(),
});

/** Of what `--message-format=json-render-diagnostics` prints. */
export function readArtifacts(text: string, targetDir: string): Artifacts {
  const programs = new Map<string, Program>();
  const ofOthers = new Set<string>();
  for (const line of text.split('\n')) {
    const message = messageOfLine(line);
    if (message === undefined) continue;
    const { package_id, target, filenames, executable, out_dir } = message;
    if (executable != null && target?.kind.includes('bin') === true) {
      const path = posix.relative(targetDir, executable);
      programs.set(path, { name: target.name, path });
    }
    if (package_id.startsWith('path+')) continue;
    for (const path of [...filenames, ...(out_dir === undefined ? [] : [out_dir])]) {
      for (const name of path.split('/')) {
        const mark = markOf(name);
        if (mark !== undefined) ofOthers.add(mark);
      }
    }
  }
  return { programs: [...programs.values()], ofOthers };
}

/** `libserde-0123456789abcdef.rlib`, `serde-0123456789abcdef`: one for each way in which a crate is compiled. */
export function markOf(name: string): string | undefined {
  return /-([0-9a-f]{16})(?=\.|$)/.exec(name)?.[1];
}

/** Programs that a build runs may print there too. */
function messageOfLine(line: string): z.output<typeof messageSchema> | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    const parsed = messageSchema.safeParse(JSON.parse(line));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}

/** Where the slug has it. */
export function placeOf({ path }: Program): string {
  return `target/${path}`;
}

/** The command line of `web`: the only program, or the one that the package says. Undefined for none, or where nothing tells. */
export function webCommand(programs: readonly Program[], main: string | undefined): string | undefined {
  const web = programs.length === 1 ? programs[0] : programs.find(({ name }) => name === main);
  return web === undefined ? undefined : placeOf(web);
}
