/** The host agent's program on this machine: each version in a folder of its own, with links to the one to start. */
import { mkdir, readFile, readdir, readlink, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { programFile } from '@flynn/host-agent/agent-process';
import { writeIfOther } from '@flynn/host-agent/trust/certificate-files';
import { hasErrno } from '@flynn/kit/errors';
import { bundle } from '../images/bundle.ts';
import { digestOf } from '../images/tag.ts';
import { isInstalled, programsFolder, root } from '../origin.ts';
import { runProgram } from '../machine/program.ts';

const program = 'layer0/host-agent/main.ts';
const syncMs = 120_000;

/** `name` is the folder it is put in. */
export type AgentProgram = Readonly<{ code: Uint8Array; name: string }>;

/** Of these sources, or of this bundle. */
export async function agentProgram(): Promise<AgentProgram> {
  const code = isInstalled ? await readFile(join(root, programsFolder, programFile)) : await bundle(program);
  return { code, name: digestOf(code).slice(0, 16) };
}

/** Whether the supervisor starts another program: `choose-version` takes the one before where this one never comes up. */
export async function isGivenUp(stateDir: string, name: string): Promise<boolean> {
  return (await versionAt(join(stateDir, 'agent', 'current'), '')) !== name;
}

/**
 * The agent in one file, away from the sources: changing those, or installing packages, does nothing to a running host.
 * A version of its own folder each, so that the one running keeps its files until the next is in its place. It is on the disk
 * before any link leads to it: after a power cut an empty one would be started for ever, having been `proven` before.
 */
export async function installAgent(stateDir: string, { code, name }: AgentProgram): Promise<void> {
  const versions = join(stateDir, 'agent');
  await mkdir(versions, { recursive: true, mode: 0o700 });
  const folder = join(versions, name);
  if (await hasProgram(folder, code)) {
    // Given up once, it has all its starts again.
    await rm(join(folder, 'starts'), { force: true });
  } else {
    const incoming = join(versions, 'incoming');
    await writeProgram(incoming, code);
    await rm(folder, { recursive: true, force: true });
    await rename(incoming, folder);
  }
  await writeIfOther(join(versions, 'choose-version'), await readFile(join(root, 'bootstrap/choose-version'), 'utf8'));
  const before = await versionAt(join(versions, 'current'), name);
  // The version before stays: `choose-version` goes back to it if this one does not come up.
  if (before !== name) await replaceLink(join(versions, 'previous'), before);
  if (await isGivenUp(stateDir, name)) await replaceLink(join(versions, 'current'), name);
  const previous = await versionAt(join(versions, 'previous'), name);
  const kept = new Set([name, previous, 'current', 'previous', 'choose-version']);
  for (const other of await readdir(versions)) {
    if (!kept.has(other)) await rm(join(versions, other), { recursive: true });
  }
}

async function hasProgram(folder: string, code: Uint8Array): Promise<boolean> {
  try {
    return (await readFile(join(folder, programFile))).equals(code);
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return false;
    throw error;
  }
}

/** Whole and on the disk, in the place of what an earlier attempt left there. */
async function writeProgram(folder: string, code: Uint8Array): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { mode: 0o700 });
  await writeFile(join(folder, programFile), code);
  await runProgram('find', [folder, '-exec', 'sync', '{}', '+'], { timeoutMs: syncMs });
}

/** Where the link leads; `none` where there is no link yet. */
async function versionAt(link: string, none: string): Promise<string> {
  try {
    return await readlink(link);
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return none;
    throw error;
  }
}

/** A crash in between leaves the old link or the new. */
export async function replaceLink(path: string, target: string): Promise<void> {
  await rm(`${path}.new`, { force: true });
  await symlink(target, `${path}.new`);
  await rename(`${path}.new`, path);
}
