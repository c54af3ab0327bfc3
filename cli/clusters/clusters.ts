/** The clusters this person knows: one file with their addresses and keys, readable by nobody else. */
import { mkdir } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { certificatesIn, fingerprintOf } from '@flynn/kit/certificate';
import { FlynnError } from '@flynn/kit/errors';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { z } from 'zod';
import { placeOf } from '../transfer.ts';

/** What other versions wrote beside these is kept. */
const clusterSchema = z.looseObject({
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, 'a name is letters, digits, ".", "_" and "-"'),
  controllerUrl: z.url(),
  key: z.string().min(1),
  /** The authority that the controller's certificate has to be of, as PEM: pinned. */
  ca: z.string().optional(),
  /** Where the last login was, with a provider of identities: as which client, for what. */
  login: z.object({ issuer: z.string(), clientId: z.string(), scope: z.string() }).optional(),
  /** `ssh://git@host:port`, without an app. */
  gitUrl: z.string(),
  domain: z.string(),
  /** Where the apps answer, for the addresses that are shown. */
  httpPort: z.int(),
});
export type Cluster = z.output<typeof clusterSchema>;

const fileSchema = z.looseObject({ default: z.string().optional(), clusters: z.array(clusterSchema).default([]) });
export type Clusters = z.output<typeof fileSchema>;

export function configDirectory(env: Readonly<Record<string, string | undefined>>): string {
  const chosen = env['FLYNN_CONFIG_DIR'];
  return chosen === undefined || chosen === '' ? join(env['HOME'] ?? homedir(), '.config', 'flynn') : chosen;
}

function fileIn(directory: string): string {
  return join(directory, 'clusters.json');
}

/** None when there is no file yet; `invalid` naming the file when it cannot be read as what it is. */
export async function loadClusters(directory: string): Promise<Clusters> {
  return (await readJsonFile(fileIn(directory), fileSchema)) ?? { clusters: [] };
}

export async function saveClusters(directory: string, clusters: Clusters): Promise<void> {
  const path = fileIn(directory);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  // A link stays one: keys may be kept elsewhere on purpose.
  await writeFileAtomic(await placeOf(path), `${JSON.stringify(clusters, undefined, 2)}\n`, { mode: 0o600 });
}

/** What is known now, not when a command began: another may have added one meanwhile. */
export async function changeClusters(directory: string, change: (known: Clusters) => Clusters): Promise<void> {
  await saveClusters(directory, change(await loadClusters(directory)));
}

type Asked = Pick<Cluster, 'name' | 'controllerUrl' | 'ca'> & { key?: string };

/** Throws `conflict` where the name is another cluster's here, whose key would be gone. */
export function assertSameCluster(known: Clusters, asked: Asked): void {
  const former = known.clusters.find(({ name }) => name === asked.name);
  if (former === undefined || isSame(former, asked)) return;
  throw new FlynnError(
    'conflict',
    `${asked.name} is another cluster here, ${former.controllerUrl}, and its key would be forgotten\n  choose another name, or forget that one with --replace`,
  );
}

/** One that has moved has its key or its authority; one that got another key has its place, and no other authority. */
function isSame(former: Cluster, asked: Asked): boolean {
  return former.key === asked.key || isSamePlace(former, asked);
}

type Place = Pick<Cluster, 'controllerUrl' | 'ca'>;

/** Whichever key either has. While an authority is made anew there are two in a pin. */
export function isSamePlace(former: Place, asked: Place): boolean {
  const [own, theirs] = [former.ca, asked.ca].map((ca) => ca && certificatesIn(ca).map(fingerprintOf));
  if (!own || !theirs) return isSameAddress(former, asked);
  return own.some((authority) => theirs.includes(authority));
}

export function isSameAddress(former: Place, asked: Place): boolean {
  return hostOf(former.controllerUrl) === hostOf(asked.controllerUrl);
}

/** It may have got a certificate since, and with that another port. */
function hostOf(url: string): string {
  const { hostname, port } = new URL(url);
  return ['', '80', '443'].includes(port) ? hostname : `${hostname}:${port}`;
}

/** The first cluster, and one added as default, is the one used without `-c`. One of the same name is replaced. */
export function withCluster(known: Clusters, added: Cluster, options: { isDefault: boolean }): Clusters {
  const others = known.clusters.filter((cluster) => cluster.name !== added.name);
  return {
    ...known,
    default: options.isDefault ? added.name : (known.default ?? added.name),
    clusters: [...others, clusterSchema.parse(added)],
  };
}

/** With another authority in the place of the one it was pinned to. */
export function withPin(known: Clusters, name: string, ca: string): Clusters {
  return {
    ...known,
    clusters: known.clusters.map((cluster) => (cluster.name === name ? { ...cluster, ca } : cluster)),
  };
}

/** Throws `not_found` for a name that is not known. */
export function withDefault(known: Clusters, name: string): Clusters {
  return { ...known, default: findCluster(known, name).name };
}

/** The next one becomes the default when the default goes. Throws `not_found` for a name that is not known. */
export function withoutCluster(known: Clusters, name: string): Clusters {
  const { name: removed } = findCluster(known, name);
  const { default: former, clusters, ...rest } = known;
  const left = clusters.filter((cluster) => cluster.name !== removed);
  const next = former === removed ? left[0]?.name : former;
  return { ...rest, ...(next === undefined ? {} : { default: next }), clusters: left };
}

/** `name`, or the default, or the first. */
export function findCluster(known: Clusters, name?: string): Cluster {
  const wanted = name ?? known.default ?? known.clusters[0]?.name;
  const found = known.clusters.find((cluster) => cluster.name === wanted);
  if (found !== undefined) return found;
  if (known.clusters.length === 0) {
    throw new FlynnError(
      'not_found',
      `no cluster${name === undefined ? '' : ` "${name}"`} is known here\n  ${eitherCommand('up')} makes one and adds it; for one elsewhere: flynn cluster add NAME URL KEY`,
    );
  }
  const names = known.clusters.map((cluster) => cluster.name).join(', ');
  throw new FlynnError(
    'not_found',
    `no cluster is called "${wanted}"\n  known: ${names}; "flynn cluster add" adds one`,
  );
}
