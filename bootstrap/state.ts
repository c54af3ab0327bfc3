/** What a cluster keeps on this machine's disk: its settings and keys, written once, readable by root only. */
import { createHmac } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readJsonFile, readTextFile, writeFileAtomic } from '@flynn/kit/files';
import { z } from 'zod';
import { runProgram } from './program.ts';
import { type Cluster, clusterSchema } from './settings.ts';

const clusterFile = (stateDir: string): string => join(stateDir, 'cluster.json');

/** As hosts of old have it: from before anything was sealed. */
const storedSchema = clusterSchema.extend({ sealingKey: z.string().optional() });

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

export type HostKey = Readonly<{ privateKey: string; publicKey: string }>;

/** The git receiver's identity; the same for the cluster's life, or people's ssh would warn them. */
export async function ensureHostKey(stateDir: string): Promise<HostKey> {
  const file = join(stateDir, 'ssh_host_ed25519_key');
  if (!existsSync(file)) {
    await runProgram('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'flynn', '-f', file], { timeoutMs: 20_000 });
  }
  return { privateKey: await readFile(file, 'utf8'), publicKey: await readFile(`${file}.pub`, 'utf8') };
}

/** Makes a key that is known already this cluster's: before it has one. */
export async function adoptHostKey(stateDir: string, privateKey: string): Promise<void> {
  const file = join(stateDir, 'ssh_host_ed25519_key');
  if (existsSync(`${file}.pub`)) return;
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  await writeFile(file, privateKey, { mode: 0o600 });
  const publicKey = await runProgram('ssh-keygen', ['-y', '-f', file], { timeoutMs: 20_000 });
  await writeFileAtomic(`${file}.pub`, `${publicKey.trim()}\n`, { mode: 0o644 });
}
