/** What the command line asks of the git repository it is called in. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Io } from './io.ts';

const run = promisify(execFile);

/**
 * `others`: more URLs that were written for it, those for pushes alone among them. `reached`: where git goes when it pushes, where
 * that is not the first of all that was written: by `insteadOf`, or by several URLs.
 */
export type Remote = { name: string; url: string; others?: readonly string[]; reached?: readonly string[] };

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
  const written = ['config', '--get-regexp', String.raw`^remote\..*\.(push)?url$`];
  const [listing = '', verbose = ''] = await Promise.all([git(io, written), git(io, ['remote', '--verbose'])]);
  const fetched = valuesByName(listing, /^remote\.(.+)\.url (.+)$/);
  const onlyPushed = valuesByName(listing, /^remote\.(.+)\.pushurl (.+)$/);
  const pushed = valuesByName(verbose, /^([^\t]+)\t(.+) \(push\)$/);
  return Array.from(fetched, ([name, [url = '', ...more]]) => {
    const others = [...more, ...(onlyPushed.get(name) ?? [])];
    const reached = pushed.get(name) ?? [url];
    return {
      name,
      url,
      ...(others.length === 0 ? {} : { others }),
      ...(reached.length === 1 && reached[0] === url ? {} : { reached }),
    };
  });
}

function valuesByName(listing: string, line: RegExp): Map<string, string[]> {
  const values = new Map<string, string[]>();
  for (const [, name, value] of listing.split('\n').map((text) => line.exec(text) ?? [])) {
    if (name !== undefined && value !== undefined) values.set(name, [...(values.get(name) ?? []), value]);
  }
  return values;
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
  const ours = remotes.flatMap((remote) => {
    const app = appOf(remote, gitUrl);
    return app === undefined ? [] : [{ name: remote.name, app }];
  });
  const named = ours.find(({ name }) => name === 'flynn');
  if (named !== undefined) return named.app;
  const apps = new Set(ours.map(({ app }) => app));
  if (apps.size < 2) return [...apps][0];
  const each = ours.map(({ name, app }) => `${name} is ${app}`).join(', ');
  throw new FlynnError('invalid', `which app? Of the git remotes here ${each}\n  name it with -a NAME`);
}

/** Of several URLs git pushes to each: the first that is the cluster's. One of the cluster's may lead through a tunnel. */
function appOf({ url, others = [], reached = [] }: Remote, gitUrl: string): string | undefined {
  for (const one of [...reached, url, ...others]) {
    const app = appAt(one, gitUrl);
    if (app !== undefined) return app;
  }
  return undefined;
}

/** Whether all that was written for it leads to this app: of what has code elsewhere, too, that would be lost with it. */
export function isOfAppAlone({ url, others = [] }: Remote, gitUrl: string, app: string): boolean {
  return [url, ...others].every((one) => appAt(one, gitUrl) === app);
}

/** The app that is pushed to at this URL of the cluster: with or without `.git`, and slashes as the receiver takes them. */
function appAt(url: string, gitUrl: string): string | undefined {
  if (!URL.canParse(url) || !URL.canParse(gitUrl)) return undefined;
  const [found, base] = [new URL(url), new URL(gitUrl)];
  const of = ({ protocol, hostname, port }: URL): string => `${protocol}//${hostname.toLowerCase()}:${port || '22'}`;
  if (of(found) !== of(base)) return undefined;
  const path = base.pathname.replace(/\/+$/, '');
  if (!found.pathname.startsWith(`${path}/`)) return undefined;
  return /^\/+([^/]+?)(?:\.git)?\/*$/.exec(found.pathname.slice(path.length))?.[1];
}

export function remoteUrl(gitUrl: string, app: string): string {
  return `${gitUrl.replace(/\/$/, '')}/${app}.git`;
}
