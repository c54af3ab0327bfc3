/** What `flynn-host` needs of the agent on this machine: its address and its key, from the state folder. */
import { join } from 'node:path';
import { readFile } from 'node:fs/promises';
import { FlynnError } from '@flynn/kit/errors';
import { readLocalKey } from '../trust/local-key.ts';

export type Installation = Readonly<{
  stateDir: string;
  url: string;
  /** The cluster's. */
  key: string;
  /** By which the agent knows root here; none where it is of a version before. */
  localKey?: string;
  /** The agent's settings, the key among them. */
  environment: Readonly<Record<string, string>>;
}>;

const agentUrl = 'http://127.0.0.1:1113';

export async function readInstallation(stateDir: string): Promise<Installation> {
  const file = join(stateDir, 'agent.env');
  const environment = parseEnvironment(await readSettings(file, stateDir));
  const key = environment['FLYNN_KEY'];
  if (key === undefined) throw new FlynnError('invalid', `${file} has no FLYNN_KEY: is this host set up completely?`);
  const localKey = await readLocalKey(stateDir);
  return { stateDir, url: agentUrl, key, ...(localKey === undefined ? {} : { localKey }), environment };
}

async function readSettings(file: string, stateDir: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'EACCES') throw new FlynnError('denied', `${file} is for root only: run it with sudo`);
    if (code === 'ENOENT') {
      const hint = `there is no host agent in ${stateDir}: name its folder with --state-dir or FLYNN_STATE_DIR`;
      throw new FlynnError('not_found', hint);
    }
    throw error;
  }
}

export function parseEnvironment(text: string): Record<string, string> {
  const pairs = text.split('\n').flatMap((line) => {
    const at = line.indexOf('=');
    return at < 1 || line.startsWith('#') ? [] : [[line.slice(0, at), line.slice(at + 1)] as const];
  });
  return Object.fromEntries(pairs);
}
