/**
 * The store after its majority is gone for good: made anew of what this host's member has, or of a snapshot, with this host as
 * its only member. The others' hosts that are still there join it again by themselves. Of a snapshot a host does it that never had
 * a member, too: one of two, of which the other is gone.
 *
 * Crash safety: nothing is touched before the new member's data is whole, in a volume of its own; the resident file then leads
 * the agent to it, and the former volume goes once the store says which is this host's. Broken off before the file does, it is
 * begun anew, of what the member has by then; broken off later, it is gone on with.
 */
import { mkdir, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import { connectEtcd } from '@flynn/store/etcd';
import type { EtcdTls } from '@flynn/store/etcd-members';
import { etcdStatus } from '@flynn/store/etcd-status';
import { restoringArgs, saveSnapshot } from '@flynn/store/snapshot';
import { verifySnapshot } from '@flynn/store/snapshot-file';
import type { Entry, Store } from '@flynn/store/store';
import Docker from 'dockerode';
import { z } from 'zod';
import { configSchema } from '../config.ts';
import { label, volumeName } from '../engine/labels.ts';
import { etcdOf } from './backup.ts';
import { clientUrlOf, etcdResident, etcdVolume, peerUrlOf, residentFile, trustedBy } from './etcd-resident.ts';
import { memberKey, memberPrefix, memberSchema } from './member-keys.ts';
import type { Member } from './member-keys.ts';
import { trustedDigest } from './member-trust.ts';
import { endpointsFile, knownEndpoints } from './membership.ts';

const settingsSchema = configSchema.pick({
  FLYNN_CLUSTER: true,
  FLYNN_HOST_ID: true,
  FLYNN_ADDRESS: true,
  FLYNN_STATE_DIR: true,
  FLYNN_DOCKER_SOCKET: true,
});
type Settings = z.output<typeof settingsSchema>;

const residentSchema = z.object({
  template: z.looseObject({
    image: z.object({ name: z.string() }),
    meta: z.record(z.string(), z.string()).optional(),
    volumes: z.array(z.looseObject({ name: z.string() })).default([]),
  }),
});

/** As images are named that `up` made, or a bundle has. */
const etcdRepository = 'flynn/etcd';

/** What is under way: which member is to be this host's. */
const underWaySchema = z.object({ memberId: z.string() });
const underWayFile = (stateDir: string): string => join(stateDir, 'recovery.json');

/** Two members that are only slow have answered by then. */
const majorityMs = 10_000;
/** So does one that serves at all. */
const servingMs = 10_000;
/** The agent starts the member, a container. */
const startMs = 180_000;
/** One that was led to before this command began needs no longer, and if it is of an earlier loss it never answers. */
const begunMs = 60_000;

export type Recovery = {
  /** The agent's. */
  installation: { stateDir: string; environment: Readonly<Record<string, string>> };
  /** A file of `flynn-host snapshot save`; without it what this host's member has. */
  snapshot?: string | undefined;
  report: (line: string) => void;
  signal: AbortSignal;
};

/**
 * `conflict` while the store has its majority, `not_found` on a host without a member and without a snapshot, `unavailable` when
 * this host's member gives no snapshot, or the new one does not come up. Answers addresses of the members that were given up.
 */
export async function recoverStore({ installation, snapshot, report, signal }: Recovery): Promise<string[]> {
  const settings = settingsSchema.parse(installation.environment);
  const { endpoints, tls } = await etcdOf(installation);
  const { FLYNN_ADDRESS: address, FLYNN_STATE_DIR: stateDir } = settings;
  const own = clientUrlOf(address);
  const others = endpoints.filter((endpoint) => endpoint !== own);
  await using store = connectEtcd({ endpoints: [own], ...(tls === undefined ? {} : { tls }), log: silentLogger() });
  const begun = await begunIn(stateDir);
  if (begun !== undefined) report('going on with what was begun');
  const isBegun = begun !== undefined && (await isAnswering(store, begunMs, signal));
  const memberId = isBegun ? begun : await begin();
  await writeMembers(store, settings, { memberId, signal });
  // Only now: an agent that asked it before would find that its host is to have no member, and take it away.
  if (!(await knownEndpoints(stateDir, [])).includes(own)) await tellAgent(stateDir, own);
  await rm(underWayFile(stateDir), { force: true });
  return others.map((endpoint) => new URL(endpoint).hostname);

  async function begin(): Promise<string> {
    const existing = await readOwnResident(stateDir);
    if (existing === undefined && snapshot === undefined) throw hasNoMember();
    await checkNoMajority(endpoints, tls);
    const docker = new Docker({ socketPath: settings.FLYNN_DOCKER_SOCKET });
    const image = existing?.template.image.name ?? (await newestImage(docker, signal));
    const given = snapshot === undefined ? undefined : resolve(snapshot);
    const volume = existing?.template.volumes[0]?.name ?? etcdVolume(undefined);
    const source = given ?? (await saveOwn(settings, { docker, image, volume, tls, report, signal }));
    const isCopy = typeof source !== 'string';
    const file = isCopy ? source.copy : source;
    if (!isCopy) await verifySnapshot(file, { signal });
    report(`restoring ${(await stat(file)).size} bytes of ${file}`);
    const id = newId();
    await restore(settings, { docker, image, file, isCopy, memberId: id, signal });
    await writeFileAtomic(underWayFile(stateDir), `${JSON.stringify({ memberId: id })}\n`);
    const trusted = existing === undefined ? await trustedDigest(stateDir) : trustedBy(existing);
    await lead(settings, { memberId: id, image, ...(trusted === undefined ? {} : { trusted }) });
    report('waiting for the host agent to start etcd with it');
    await untilAnswers(store, startMs, signal);
    return id;
  }
}

/** The member of a recovery that was broken off after the agent had been led to it. */
async function begunIn(stateDir: string): Promise<string | undefined> {
  const underWay = await readJsonFile(underWayFile(stateDir), underWaySchema);
  if (underWay === undefined) return undefined;
  const resident = await readOwnResident(stateDir);
  const isLed = resident?.template.volumes.some(({ name }) => name === etcdVolume(underWay.memberId)) === true;
  return isLed ? underWay.memberId : undefined;
}

async function checkNoMajority(endpoints: readonly string[], tls: EtcdTls | undefined): Promise<void> {
  const access = { endpoints: [...endpoints], log: silentLogger(), timeoutMs: majorityMs };
  await using store = connectEtcd({ ...access, ...(tls === undefined ? {} : { tls }) });
  try {
    await store.list(memberPrefix);
  } catch (error) {
    if (hasCode(error, 'unavailable', 'timeout')) return;
    throw error;
  }
  throw new FlynnError('conflict', 'the store answers: it has its majority, and nothing of it is to be made anew');
}

type Own = Readonly<{
  docker: Docker;
  image: string;
  volume: string;
  tls: EtcdTls | undefined;
  report: Recovery['report'];
  signal: AbortSignal;
}>;

/** A snapshot; `copy` of its database where it gives none, since it serves nobody before it has seen a majority. */
async function saveOwn(settings: Settings, own: Own): Promise<string | { copy: string }> {
  const { FLYNN_CLUSTER: cluster, FLYNN_ADDRESS: address, FLYNN_STATE_DIR: stateDir } = settings;
  const { docker, image, volume, tls, report, signal } = own;
  const file = join(stateDir, `before-recovery-${new Date().toISOString().replaceAll(/[:.]/g, '-')}.snapshot`);
  const trusting = tls === undefined ? {} : { tls };
  const source = { endpoint: clientUrlOf(address), isAloneFine: true, ...trusting };
  try {
    const asked = { endpoints: [source.endpoint], ...trusting, signal: withDeadline(servingMs, signal) };
    const [status] = (await etcdStatus(asked)).members;
    if (status?.answer === undefined) {
      report(
        'this host’s member has not seen a majority since it was started, and serves nobody: its database is copied as it is',
      );
      const command = ['cp', '/data/member/snap/db', `/snapshot/${basename(file)}`];
      const binds = [`${volumeName(cluster, volume)}:/data:ro`, `${dirname(file)}:/snapshot`];
      await runTool(docker, { image, command, binds, what: 'copy the database of the member', signal });
      report(`saved what this host has to ${file}`);
      return { copy: file };
    }
    await saveSnapshot(source, file, { signal });
  } catch (error) {
    signal.throwIfAborted();
    const hint = 'start the host agent, which starts it, or name a snapshot with --snapshot';
    throw new FlynnError('unavailable', `this host's member of etcd gives no snapshot: ${messageOf(error)}; ${hint}`, {
      cause: error,
    });
  }
  report(`saved what this host has to ${file}`);
  return file;
}

/** Undefined where the host has no member. */
function readOwnResident(stateDir: string): Promise<z.output<typeof residentSchema> | undefined> {
  return readJsonFile(residentFile(stateDir), residentSchema);
}

function hasNoMember(): FlynnError {
  return new FlynnError(
    'not_found',
    'this host has no member of etcd: run this on one that has ("flynn-host status" there tells). Where all of those are gone for good, give it a file of "flynn-host snapshot save" (--snapshot FILE), or make a new cluster of a backup',
  );
}

/** Every host has the platform's images, also one that never had a member: other hosts gave them, or its bundle. */
async function newestImage(docker: Docker, signal: AbortSignal): Promise<string> {
  const images = await docker.listImages({ filters: { reference: [etcdRepository] }, abortSignal: signal });
  const [newest] = images.toSorted((a, b) => b.Created - a.Created);
  const name = newest?.RepoTags?.find((tag) => tag.startsWith(`${etcdRepository}:`));
  if (name !== undefined) return name;
  throw new FlynnError(
    'not_found',
    `the engine of this host has no image ${etcdRepository}, which etcd runs from: load it (docker load) from another host or a bundle, then type the same again. Nothing was changed`,
  );
}

/** Into a volume that is there for it alone, by the offline tool of etcd's own image. */
async function restore(
  settings: Settings,
  {
    docker,
    image,
    file,
    isCopy,
    memberId,
    signal,
  }: { docker: Docker; image: string; file: string; isCopy: boolean; memberId: string; signal: AbortSignal },
): Promise<void> {
  const { FLYNN_CLUSTER: cluster, FLYNN_HOST_ID: name, FLYNN_ADDRESS: address } = settings;
  const volume = volumeName(cluster, etcdVolume(memberId));
  await docker.createVolume({ Name: volume, Labels: { [label.cluster]: cluster }, abortSignal: signal });
  const args = restoringArgs({ dataDir: '/data', name, peerUrl: peerUrlOf(address) });
  // Only what etcd gave as a snapshot ends with its digest.
  if (isCopy) args.push('--skip-hash-check');
  const command = ['etcdutl', 'snapshot', 'restore', `/snapshot/${basename(file)}`, ...args];
  const binds = [`${volume}:/data`, `${dirname(file)}:/snapshot:ro`];
  await runTool(docker, { image, command, binds, what: `restore ${file}`, signal });
}

type Tool = Readonly<{ image: string; command: string[]; binds: string[]; what: string; signal: AbortSignal }>;

/** A program of etcd's own image, to its end. Throws `internal` with what it said. */
async function runTool(docker: Docker, { image, command, binds, what, signal }: Tool): Promise<void> {
  const container = await docker.createContainer({
    // Without the cluster's label: to its agent it is nobody's.
    Image: image,
    Entrypoint: command.slice(0, 1),
    Cmd: command.slice(1),
    HostConfig: { NetworkMode: 'none', Binds: binds },
    abortSignal: signal,
  });
  try {
    await container.start({ abortSignal: signal });
    const { StatusCode: code } = z.object({ StatusCode: z.int() }).parse(await container.wait({ abortSignal: signal }));
    if (code === 0) return;
    const said = String(await container.logs({ stdout: true, stderr: true, tail: 5 }));
    throw new FlynnError('internal', `${command[0]} could not ${what} (exit code ${code}): ${said}`);
  } finally {
    await container.remove({ force: true });
  }
}

/** The agent replaces its member by this one, or begins to have one. */
async function lead(settings: Settings, member: { memberId: string; image: string; trusted?: string }): Promise<void> {
  const { FLYNN_CLUSTER: cluster, FLYNN_HOST_ID: hostId, FLYNN_ADDRESS: address, FLYNN_STATE_DIR: stateDir } = settings;
  const resident = etcdResident({ cluster, hostId, address, stateDir, ...member });
  const file = residentFile(stateDir);
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await writeFileAtomic(file, `${JSON.stringify(resident, undefined, 2)}\n`);
}

/** It looks at the file for as long as nobody it knows answers. */
async function tellAgent(stateDir: string, own: string): Promise<void> {
  await writeFileAtomic(endpointsFile(stateDir), `${JSON.stringify([own])}\n`);
}

async function untilAnswers(store: Store, deadlineMs: number, signal: AbortSignal): Promise<void> {
  const answers = async (): Promise<boolean> => {
    try {
      await store.list(memberPrefix, { signal });
      return true;
    } catch (error) {
      if (hasCode(error, 'unavailable', 'timeout')) return false;
      throw error;
    }
  };
  await waitFor(answers, {
    what: 'etcd: does the host agent run ("flynn-host status")? The same command goes on',
    deadlineMs,
    intervalMs: 500,
    signal,
  });
}

async function isAnswering(store: Store, deadlineMs: number, signal: AbortSignal): Promise<boolean> {
  try {
    await untilAnswers(store, deadlineMs, signal);
    return true;
  } catch (error) {
    if (hasCode(error, 'timeout')) return false;
    throw error;
  }
}

/** This host's is the only one: with its key the agent knows which volume is its own, and who has none takes part anew. */
async function writeMembers(
  store: Store,
  { FLYNN_HOST_ID: hostId, FLYNN_ADDRESS: address }: Settings,
  { memberId, signal }: { memberId: string; signal: AbortSignal },
): Promise<void> {
  const { entries } = await store.list(memberPrefix, { signal });
  const own = memberKey(hostId);
  const isSame = ({ key, value }: Entry): boolean =>
    key === own && memberSchema.parse(JSON.parse(value)).memberId === memberId;
  // Written before it was broken off: others may be members again since then.
  if (entries.some(isSame)) return;
  const member: Member = { address, state: 'voter', memberId };
  const others = entries.filter(({ key }) => key !== own).map(({ key }) => ({ delete: key }));
  await store.transact({ then: [{ put: own, value: JSON.stringify(member) }, ...others] }, { signal });
}
