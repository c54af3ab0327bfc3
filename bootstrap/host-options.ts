/** How this machine was set up as a host, for commands that are not told again. `sudo` passes no variables on. */
import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError, hasErrno } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import { commands } from './origin.ts';
import { type Options, readOptions } from './settings.ts';

const socketName = 'FLYNN_DOCKER_SOCKET';

/**
 * With the engine that this host's agent has. `conflict` where another one is given: its containers and volumes are not there, and
 * all of them would be taken for gone.
 */
export async function readHostOptions(env: Record<string, string | undefined>): Promise<Options> {
  const options = readOptions(env);
  const file = settingsFile(options.FLYNN_STATE_DIR);
  const socket = settingIn(await textOf(file), socketName);
  if (socket === undefined) return options;
  const isGiven = (env[socketName] ?? '') !== '';
  if (isGiven && (await placeOf(options[socketName])) !== (await placeOf(socket))) {
    throw new FlynnError(
      'conflict',
      `${socketName} is ${options[socketName]}, but what this host runs is in the engine at ${socket}: unset it, or take the host down first with ${commands.down}. Is it the same engine, which answers there by now, write that into ${file} first. Nothing was changed`,
    );
  }
  return { ...options, [socketName]: socket };
}

const settingsFile = (stateDir: string): string => join(stateDir, 'agent.env');

/** The version's folder that the agent of this host was put in place from; nothing where that was the repository. */
export async function installationOf(stateDir: string): Promise<string | undefined> {
  return settingIn(await textOf(settingsFile(stateDir)), 'FLYNN_INSTALLATION');
}

function settingIn(text: string | undefined, name: string): string | undefined {
  const line = text?.split('\n').find((one) => one.startsWith(`${name}=`));
  return line?.slice(name.length + 1);
}

/** Who may not read it is told that this needs root with all else that is in the way. */
async function textOf(file: string): Promise<string | undefined> {
  try {
    return await readTextFile(file);
  } catch (error) {
    if (hasErrno(error, 'EACCES')) return undefined;
    throw error;
  }
}

/** Without links, such as /var/run; as it is named where there is nothing at the moment. */
async function placeOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (hasErrno(error, 'ENOENT', 'ENOTDIR')) return path;
    throw error;
  }
}
