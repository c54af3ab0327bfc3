/** What the command line asks of the git repository it is called in. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Io } from './io.ts';

const run = promisify(execFile);

export type Remote = { name: string; url: string };

async function git(io: Io, args: readonly string[]): Promise<string | undefined> {
  try {
    const { stdout } = await run('git', args, { cwd: io.cwd, env: { ...io.env }, timeout: 10_000 });
    return stdout;
  } catch {
    // Not a repository, no such setting, or no git: for what is asked here they all mean "nothing".
    return undefined;
  }
}

export async function listRemotes(io: Io): Promise<Remote[]> {
  const listing = (await git(io, ['config', '--get-regexp', String.raw`^remote\..*\.url$`])) ?? '';
  return listing.split('\n').flatMap((line) => {
    const [, name, url] = /^remote\.(.+)\.url (.+)$/.exec(line) ?? [];
    return name !== undefined && url !== undefined ? [{ name, url }] : [];
  });
}

export async function isRepository(io: Io): Promise<boolean> {
  return (await git(io, ['rev-parse', '--git-dir'])) !== undefined;
}

export async function isRemoteName(io: Io, name: string): Promise<boolean> {
  return (await git(io, ['check-ref-format', `refs/remotes/${name}/main`])) !== undefined && !name.startsWith('-');
}

export async function addRemote(io: Io, remote: Remote): Promise<void> {
  try {
    await run('git', ['remote', 'add', remote.name, remote.url], { cwd: io.cwd, env: { ...io.env }, timeout: 10_000 });
  } catch (error) {
    throw new FlynnError('internal', `git would not add the remote "${remote.name}": ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/**
 * Has this repository's ssh know the cluster's host key and offer the key made for it, where the cluster left them beside
 * the list of clusters, so that the first push asks nothing. What the person configured themselves stays.
 */
export async function trustCluster(io: Io, configDirectory: string): Promise<void> {
  const knownHosts = join(configDirectory, 'known_hosts');
  if (!existsSync(knownHosts) || (await git(io, ['config', 'core.sshCommand'])) !== undefined) return;
  const folder = join(io.env['HOME'] ?? homedir(), '.ssh');
  const options = [`UserKnownHostsFile="${join(folder, 'known_hosts')}" "${knownHosts}"`];
  const clusterKey = join(configDirectory, 'id_ed25519');
  if (existsSync(clusterKey)) {
    // Naming one key hides the usual ones from ssh, so those that are there are named too.
    const usual = ['id_ed25519', 'id_ecdsa', 'id_rsa']
      .map((name) => join(folder, name))
      .filter((file) => existsSync(file));
    options.push(...[...usual, clusterKey].map((file) => `IdentityFile="${file}"`));
  }
  await git(io, ['config', 'core.sshCommand', ['ssh', ...options.map((option) => `-o '${option}'`)].join(' ')]);
}

export async function removeRemote(io: Io, name: string): Promise<void> {
  await git(io, ['remote', 'remove', name]);
}

/**
 * The app that remotes of this cluster push to: that of the one called `flynn`, else of all there are. Where these lead to
 * several, none is meant more than the others: `invalid`.
 */
export function appOfRemotes(remotes: readonly Remote[], gitUrl: string): string | undefined {
  const prefix = `${gitUrl.replace(/\/$/, '')}/`;
  const appOf = ({ url }: Remote): string => url.slice(prefix.length).replace(/\.git$/, '');
  const ours = remotes.filter((remote) => remote.url.startsWith(prefix));
  const named = ours.find((remote) => remote.name === 'flynn');
  if (named !== undefined) return appOf(named);
  const apps = new Set(ours.map(appOf));
  if (apps.size < 2) return [...apps][0];
  const each = ours.map((remote) => `${remote.name} is ${appOf(remote)}`).join(', ');
  throw new FlynnError('invalid', `which app? Of the git remotes here ${each}\n  name it with -a NAME`);
}

export function remoteUrl(gitUrl: string, app: string): string {
  return `${gitUrl.replace(/\/$/, '')}/${app}.git`;
}
