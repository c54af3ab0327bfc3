/** What a cluster keeps on this machine's disk: its settings and keys, written once, readable by root only. */
import { createHmac } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, readdir, rm, rmdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { namedOf } from '@flynn/host-agent/cluster/authority-rounds';
import { readAuthoritySettings } from '@flynn/host-agent/trust/authorities';
import { hasErrno } from '@flynn/kit/errors';
import { readJsonFile, readTextFile, writeFileAtomic } from '@flynn/kit/files';
import { z } from 'zod';
import { ensureKeyFiles, writePublicKey } from './machine/key-files.ts';
import { type Cluster, clusterSchema } from './settings.ts';

const clusterFile = (stateDir: string): string => join(stateDir, 'cluster.json');

/** As hosts of old have it: from before anything was sealed. */
const storedSchema = clusterSchema.extend({ sealingKey: z.string().optional() });

/** Whether this is the state directory of a host. */
export function hasCluster(stateDir: string): boolean {
  return existsSync(clusterFile(stateDir));
}

export async function readCluster(stateDir: string): Promise<Cluster | undefined> {
  const stored = await readJsonFile(clusterFile(stateDir), storedSchema);
  if (stored === undefined) return undefined;
  return { ...stored, sealingKey: stored.sealingKey ?? formerSealingKey(stored.authority) };
}

/** Of a cluster that was made without one: all its hosts have the authority's key, and so make the same. */
function formerSealingKey({ privateKey }: Cluster['authority']): string {
  return createHmac('sha256', privateKey).update('flynn sealing key').digest('base64url');
}

export async function writeCluster(stateDir: string, cluster: Cluster): Promise<void> {
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  const text = `${JSON.stringify(cluster, undefined, 2)}\n`;
  const before = await readTextFile(clusterFile(stateDir));
  if (before !== text) await writeFileAtomic(clusterFile(stateDir), text, { mode: 0o600 });
}

/** What an `up` that was broken off early leaves, and what is in a file system of one's own. */
const earlyFile =
  /^(engine\.json|dockerd\.log|restore\.json|ssh_host_ed25519_key(\.new)?(\.pub)?|\..*\.tmp|lost\+found)$/;

/** What is in that folder and nobody's of a cluster: it is none that `up` may take for its own, nor `down` take away. */
export async function strangersIn(stateDir: string): Promise<string[]> {
  const names = await namesIn(stateDir);
  return names.includes(basename(clusterFile(stateDir))) ? [] : names.filter((name) => !earlyFile.test(name)).sort();
}

/** By the cluster's settings it is known to be one, also after this was broken off: they go last. A disk's own folder stays. */
export async function removeStateDir(stateDir: string): Promise<void> {
  const last = basename(clusterFile(stateDir));
  const names = (await namesIn(stateDir)).filter((name) => name !== last);
  for (const name of [...names, last]) await rm(join(stateDir, name), { recursive: true, force: true });
  try {
    await rmdir(stateDir);
  } catch (error) {
    if (!hasErrno(error, 'EBUSY')) throw error;
  }
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (hasErrno(error, 'ENOENT', 'EACCES')) return [];
    throw error;
  }
}

/** With the cluster's authorities as the agent of this host has them, where those are of a later round. */
export async function withLatestAuthorities(stateDir: string, cluster: Cluster): Promise<Cluster> {
  const onDisk = await readAuthoritySettings(stateDir);
  if (onDisk === undefined || namedOf(onDisk).round <= namedOf(cluster).round) return cluster;
  const { alsoTrusted: _1, endorsement: _2, ...rest } = cluster;
  return { ...rest, ...onDisk };
}

const hostKeyFile = (stateDir: string): string => join(stateDir, 'ssh_host_ed25519_key');

export type HostKey = Readonly<{ privateKey: string; publicKey: string }>;

/** The git receiver's identity; the same for the cluster's life, or people's ssh would warn them. */
export async function ensureHostKey(stateDir: string): Promise<HostKey> {
  const file = hostKeyFile(stateDir);
  const publicFile = await ensureKeyFiles(file);
  return { privateKey: await readFile(file, 'utf8'), publicKey: await readFile(publicFile, 'utf8') };
}

/** Makes a key that is known already this cluster's, also in the place of one that this host had before. */
export async function adoptHostKey(stateDir: string, privateKey: string): Promise<void> {
  const file = hostKeyFile(stateDir);
  if (existsSync(`${file}.pub`) && (await readTextFile(file)) === privateKey) return;
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  await rm(`${file}.pub`, { force: true });
  await writeFileAtomic(file, privateKey, { mode: 0o600 });
  await writePublicKey(file);
}
