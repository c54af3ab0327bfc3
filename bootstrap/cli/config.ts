/** The flynn command's list of clusters on this machine, and what goes with it: an SSH key and whom to trust. */
import { existsSync } from 'node:fs';
import { chown, mkdir, readdir, rm, rmdir } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, relative } from 'node:path';
import { type Cluster, loadClusters, saveClusters, withCluster, withoutCluster } from '@flynn/cli/clusters/clusters';
import { withHostKey } from '@flynn/cli/clusters/known-hosts';
import { readTextFile, writeFileAtomic } from '@flynn/kit/files';
import { ensureKeyFiles } from '../machine/key-files.ts';
import { tryProgram } from '../machine/program.ts';
import { type Former, type KnownAs, type Place, isNameOf, isTokenFor, knownAs } from './known-as.ts';

/** Whose configuration it is: with sudo, that of who called it, else root's. */
export type Person = Readonly<{ home: string; configDir: string; uid?: number; gid?: number }>;

export async function findPerson(
  configDir: string | undefined,
  env: Record<string, string | undefined>,
): Promise<Person> {
  const caller = env['SUDO_USER'];
  let home = homedir();
  let ids: { uid?: number; gid?: number } = {};
  if (process.getuid?.() === 0 && caller !== undefined && caller !== '' && caller !== 'root') {
    // Nobody may be called so here: a container or another service of names has passed the variable on, or has them no more.
    const { stdout } = await tryProgram('getent', ['passwd', caller], { timeoutMs: 10_000 });
    const [, , uid, gid, , folder] = stdout.trim().split(':');
    if (folder !== undefined && folder !== '') {
      home = folder;
      ids = { uid: Number(uid), gid: Number(gid) };
    }
  }
  return { home, ...ids, configDir: configDir ?? join(home, '.config', 'flynn') };
}

const clustersFile = (person: Person): string => join(person.configDir, 'clusters.json');

/** See `knownAs`. The first one is the default. */
export async function addCluster(person: Person, cluster: Cluster, former?: Former): Promise<KnownAs> {
  await makeFolder(person);
  const before = await loadClusters(person.configDir);
  const known = knownAs(before, cluster, former);
  await saveClusters(person.configDir, withCluster(before, known.entry, { isDefault: false }));
  await giveTo(person, clustersFile(person));
  return known;
}

/**
 * Whether there was one with this name, as `knownAs` gives it, and one of the keys: another cluster may have taken the name.
 * `wasAt`: of a cluster that is gone as a whole, whose tokens open nothing either: the next one there would be taken for it.
 * What was put beside the list goes with its last cluster.
 */
export async function removeCluster(
  person: Person,
  { name, keys, wasAt }: { name: string; keys: readonly string[]; wasAt?: Place },
): Promise<boolean> {
  const before = await loadClusters(person.configDir);
  const isIts = (one: Cluster) => keys.includes(one.key) || (wasAt !== undefined && isTokenFor(one, wasAt));
  const gone = before.clusters.filter((one) => isNameOf(name, one.name) && isIts(one));
  if (gone.length === 0) return false;
  const after = gone.reduce((left, one) => withoutCluster(left, one.name), before);
  if (after.clusters.length > 0) {
    await saveClusters(person.configDir, after);
    await giveTo(person, clustersFile(person));
    return true;
  }
  for (const file of ['clusters.json', 'known_hosts', 'id_ed25519', 'id_ed25519.pub']) {
    await rm(join(person.configDir, file), { force: true });
  }
  if ((await readdir(person.configDir)).length === 0) await rmdir(person.configDir);
  return true;
}

export type SshKey = Readonly<{
  /** Can be used without asking anybody. */
  privateFile: string;
  /** All that may push. */
  publicFiles: readonly string[];
}>;

/** The person's own keys may push; where none of them works without a passphrase, one made for this does too. */
export async function ensureSshKey(person: Person): Promise<SshKey> {
  const folder = join(person.home, '.ssh');
  const own = ['id_ed25519', 'id_ecdsa', 'id_rsa']
    .map((name) => join(folder, name))
    .filter((file) => existsSync(file) && existsSync(`${file}.pub`));
  const publicFiles = own.map((file) => `${file}.pub`);
  for (const privateFile of own) if (await isUsable(privateFile)) return { privateFile, publicFiles };
  await makeFolder(person);
  const privateFile = join(person.configDir, 'id_ed25519');
  const publicFile = await ensureKeyFiles(privateFile);
  // Broken off before that, they are root's.
  for (const file of [privateFile, publicFile]) await giveTo(person, file);
  return { privateFile, publicFiles: [...publicFiles, publicFile] };
}

/** Whether it has no passphrase. */
async function isUsable(privateFile: string): Promise<boolean> {
  return (await tryProgram('ssh-keygen', ['-y', '-P', '', '-f', privateFile], { timeoutMs: 10_000 })).code === 0;
}

/** For ssh's UserKnownHostsFile: the cluster's own host key, so that nobody has to take it on trust. */
export async function writeKnownHosts(person: Person, host: string, port: number, publicKey: string): Promise<string> {
  await makeFolder(person);
  const file = join(person.configDir, 'known_hosts');
  // What is there and cannot be read is not to be written over.
  const before = (await readTextFile(file)) ?? '';
  await write(person, file, withHostKey(before, { host, port }, publicKey), 0o644);
  return file;
}

async function makeFolder(person: Person): Promise<void> {
  const first = await mkdir(person.configDir, { recursive: true, mode: 0o700 });
  // Every folder that was made on the way belongs to the person too.
  if (first === undefined) return;
  const below = relative(first, person.configDir).split('/');
  for (const [index] of below.entries()) await giveTo(person, join(first, ...below.slice(0, index)));
  await giveTo(person, person.configDir);
}

async function write(person: Person, file: string, text: string, mode: number): Promise<void> {
  const { uid, gid } = person;
  await writeFileAtomic(file, text, {
    mode,
    ...(uid === undefined || gid === undefined ? {} : { owner: { uid, gid } }),
  });
}

async function giveTo(person: Person, path: string): Promise<void> {
  if (person.uid !== undefined && person.gid !== undefined) await chown(path, person.uid, person.gid);
}
