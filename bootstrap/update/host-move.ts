/** One host of the cluster from one version to another, by its agent, while its jobs run on. */
import { createReadStream } from 'node:fs';
import { clientUrlOf } from '@flynn/host-agent/cluster/etcd-resident';
import { memberKey } from '@flynn/host-agent/cluster/member-keys';
import { type AgentPlace, agentClient } from '@flynn/host-agent/agent-client';
import { routes } from '@flynn/host-agent/api';
import { type ExaminedHost, doctorRoutes } from '@flynn/host-agent/doctor/api';
import { installationRoutes } from '@flynn/host-agent/update/installation';
import type { HostRoom } from '@flynn/host-agent/update/room';
import { hostAuthoritiesOf } from '@flynn/host-agent/trust/authorities';
import { readHostIdentity } from '@flynn/host-agent/trust/host-trust';
import { FlynnError, hasCode, ifFound, messageOf } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import type { Logger } from '@flynn/kit/log';
import { retry, waitFor } from '@flynn/kit/retry';
import type { ResponseOf } from '@flynn/kit/routes';
import { type HostRecord, assignmentSchema, cellKeys, hostRecordSchema } from '@flynn/scheduler/cell';
import { connectEtcd } from '@flynn/store/etcd';
import type { Store } from '@flynn/store/store';
import { leasesOf } from '../joining/admission.ts';
import { ensureHostCertificate } from '../joining/certificates.ts';
import { withStore } from '../platform/controller.ts';
import type { Cluster } from '../settings.ts';
import type { Report } from '../steps/timed.ts';

export type Place = Readonly<{ stateDir: string; cluster: Cluster; log: Logger }>;
export type Host = AgentPlace;
export type BundleCopy = Readonly<{
  file: string;
  sha256: string;
  bytes: number;
  /** Of the list of its files, as a host that has it says. */
  listDigest: string;
}>;

/** Loading a bundle's images takes the most of it. */
const moveMs = 10 * 60_000;
const callMs = 10_000;
/** The installer is given less by its host's agent. */
const unpackMs = 15 * 60_000;
/** A megabit. */
const slowBytesPerSecond = 125_000;
const settleMs = 120_000;
/** Databases have two minutes to end after their requests have. */
const endingMs = 10 * 60_000;
/** An agent that does not come up is replaced by the one before within less. */
const silentMs = 5 * 60_000;

/** Those that are there, in the order of their names. */
export async function hostsOf(store: Store): Promise<HostRecord[]> {
  const { entries } = await store.list(cellKeys.hosts);
  return entries
    .map(({ value }) => hostRecordSchema.parse(JSON.parse(value)))
    .toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

/** Hosts of the cluster that are not there now. */
export async function awayOf(store: Store): Promise<string[]> {
  const there = new Set((await hostsOf(store)).map(({ id }) => id));
  return (await leasesOf(store)).map(({ hostId }) => hostId).filter((id) => !there.has(id));
}

/** `unavailable` when it is not in the cell. */
export async function ownHost(place: Place): Promise<Host> {
  const { hostId } = place.cluster;
  const own = (await withStore(place, hostsOf)).find(({ id }) => id === hostId);
  if (own === undefined) throw new FlynnError('unavailable', `this host, ${hostId}, is not in the cluster`);
  return own;
}

/** Of the hosts those whose member of the store does not answer with what was written last, each with why. */
export async function sickMembers(place: Place, hosts: readonly Host[]): Promise<string[]> {
  const sick = await Promise.all(
    hosts.map(async (host) => {
      try {
        if (await hasMember(place, host)) await askMember(place, host);
        return [];
      } catch (error) {
        return [`${host.id} (${messageOf(error)})`];
      }
    }),
  );
  return sick.flat();
}

/** As the agent of this host finds them. */
export async function examinedHosts(place: Place): Promise<readonly ExaminedHost[]> {
  const query = { patienceMs: callMs / 2 };
  const { hosts } = await withAgent(place, await ownHost(place), (client) =>
    client.call(doctorRoutes.cluster, { query }, { timeoutMs: callMs }),
  );
  return hosts;
}

async function hasMember(place: Place, host: Host): Promise<boolean> {
  return (await withStore(place, (store) => store.get(memberKey(host.id)))) !== undefined;
}

/** As the host says of itself at the moment: agents of one version know certificates, those of another perhaps not. */
export async function withAgent<T>(place: Place, host: Host, task: (client: HttpClient) => Promise<T>): Promise<T> {
  const entry = await withStore(place, (store) => store.get(cellKeys.host(host.id)));
  const now = entry === undefined ? host : hostRecordSchema.parse(JSON.parse(entry.value));
  const identity = await readHostIdentity(place.stateDir);
  await using client = agentClient(now, { key: place.cluster.key, identity });
  return await task(client);
}

export function versionOfHost(place: Place, host: Host): Promise<string> {
  return withAgent(place, host, async (client) => (await client.call(routes.host, {}, { timeoutMs: callMs })).version);
}

/** Nothing of a host whose agent is of a version that does not tell. */
export function roomOnHost(place: Place, host: Host): Promise<HostRoom | undefined> {
  return withAgent(place, host, (client) => ifFound(client.call(installationRoutes.room, {}, { timeoutMs: callMs })));
}

export type HostMove = Readonly<{
  version: string;
  /** For a host that does not have it yet. */
  bundle?: BundleCopy | undefined;
  report: Report;
}>;

/**
 * Answers once the host serves as one of the version, runs what it ran before, and its member of the store has caught up.
 * Where it is of that version already this is only looked at; where it is on the way to it, that is waited for.
 */
export async function moveHost(place: Place, host: Host, move: HostMove): Promise<'moved' | 'there already'> {
  // Right after another host was moved, an answer may be late.
  const asking = { what: `asking ${host.id}`, deadlineMs: settleMs, maxMs: 1_000 };
  const before = await retry(() => runningOn(place, host), asking);
  const isThere = isOf(move.version, await retry(() => tellOn(place, host, move.version), asking));
  if (!isThere) await become(place, host, move);
  move.report('waiting for its jobs and its part of the store');
  await untilWhole(place, host, before);
  return isThere ? 'there already' : 'moved';
}

async function become(place: Place, host: Host, { version, bundle, report }: HostMove): Promise<void> {
  const use = async (): Promise<void> => {
    if ((await stateOn(place, host, version)).state === 'under way') return;
    await withAgent(place, host, (client) =>
      client.call(installationRoutes.use, { params: { version } }, { timeoutMs: callMs }),
    );
  };
  if (bundle !== undefined && (await lacksBundle(() => roomOnHost(place, host), version, bundle))) {
    report('sending the bundle');
    await withAgent(place, host, async (client) => {
      const body = createReadStream(bundle.file, { highWaterMark: 1024 ** 2 });
      const limits = { timeoutMs: uploadMs(bundle) };
      await client.call(installationRoutes.put, { query: { sha256: bundle.sha256 }, body }, limits);
    });
  }
  report('its agent is being replaced');
  // It may be on the way to another version still, back from one that failed.
  const isRetryable = (error: unknown): boolean => hasCode(error, 'conflict', 'unavailable', 'timeout', 'exhausted');
  await retry(use, {
    what: `having ${host.id} become one of ${version}`,
    deadlineMs: moveMs,
    maxMs: 2_000,
    isRetryable,
  });
  await untilOf(place, host, version);
}

/** The look is to save the sending: where it fails, the bundle goes. */
export async function lacksBundle(
  look: () => Promise<Pick<HostRoom, 'digests'> | undefined>,
  version: string,
  bundle: Pick<BundleCopy, 'listDigest'>,
): Promise<boolean> {
  try {
    return !hasBundle(await look(), version, bundle);
  } catch {
    return true;
  }
}

/** Of a version whose files may be others every host is sent what is to be there. */
function hasBundle(
  room: Pick<HostRoom, 'digests'> | undefined,
  version: string,
  { listDigest }: Pick<BundleCopy, 'listDigest'>,
): boolean {
  return room?.digests?.[version] === listDigest;
}

/** To send it over a slow link, and to unpack it. */
export function uploadMs({ bytes }: Pick<BundleCopy, 'bytes'>): number {
  return unpackMs + (bytes / slowBytesPerSecond) * 1_000;
}

type RefreshState = ResponseOf<typeof installationRoutes.state>;

function stateOn(place: Place, host: Host, version: string): Promise<RefreshState> {
  return withAgent(place, host, (client) =>
    client.call(installationRoutes.state, { params: { version } }, { timeoutMs: callMs }),
  );
}

/** Of the version that its agent says, and of what came of having it become one. */
type Told = Readonly<{ agent: string; refresh: RefreshState }>;

/** The agent, and whatever else was to be done there: of one that failed, or is being undone, the agent may be there alone. */
export function isOf(version: string, { agent, refresh: { state, becoming } }: Told): boolean {
  return agent === version && becoming === undefined && (state === 'done' || state === 'none');
}

async function tellOn(place: Place, host: Host, version: string): Promise<Told> {
  const agent = await versionOfHost(place, host);
  return { agent, refresh: await stateOn(place, host, version) };
}

/** An agent that is being replaced does not answer for a moment. One that is back tells why the next one is not. */
async function untilOf(place: Place, host: Host, version: string): Promise<void> {
  let answeredAt = performance.now();
  const { why: failure } = await waitFor(
    async (): Promise<{ why?: string } | false> => {
      if (performance.now() - answeredAt > silentMs) return { why: 'its agent has not answered for minutes' };
      const told = await tellOn(place, host, version);
      answeredAt = performance.now();
      if (isOf(version, told)) return {};
      const { state, why, becoming } = told.refresh;
      return state === 'failed' && becoming === undefined && { why: why ?? 'it did not say why' };
    },
    { what: `${host.id} to be of version ${version}`, deadlineMs: moveMs, intervalMs: 500 },
  );
  if (failure === undefined) return;
  const where =
    'update.log in its state directory tells what was done there, agent.log (or journalctl) what the agent says';
  throw new FlynnError('unavailable', `${host.id} did not become a host of version ${version}: ${failure}\n${where}`);
}

async function runningOn(place: Place, host: Host): Promise<ReadonlySet<string>> {
  const jobs = await withAgent(place, host, (client) =>
    client.call(routes.jobs, { query: { active: true } }, { timeoutMs: callMs }),
  );
  return new Set(jobs.filter(({ state }) => state === 'running').map(({ id }) => id));
}

type JobNow = Readonly<{ id: string; state: string }>;

/** `wanted`: what the cell has the host run. What was scaled down, replaced or moved in the meantime is not asked for again. */
export function notRunning(
  before: ReadonlySet<string>,
  now: readonly JobNow[],
  wanted: ReadonlySet<string>,
): { id: string; isEnding: boolean }[] {
  return now
    .filter(({ id, state }) => before.has(id) && wanted.has(id) && state !== 'running')
    .map(({ id, state }) => ({ id, isEnding: state === 'stopping' }));
}

/** Jobs by their ids. */
async function wantedOn(store: Store, host: Host): Promise<ReadonlySet<string>> {
  const { entries } = await store.list(cellKeys.hostAssignments(host.id));
  const groups = entries.flatMap(({ value }) => assignmentSchema.parse(JSON.parse(value)).groups);
  return new Set(groups.flatMap(({ jobs }) => jobs.filter(({ desired }) => desired === 'run').map(({ id }) => id)));
}

/** A job that somebody stops ends its requests first, and then has its own time: for that it is waited longer than for all else. */
async function untilWhole(place: Place, host: Host, before: ReadonlySet<string>): Promise<void> {
  const since = performance.now();
  let isAnyEnding = false;
  const look = async (): Promise<void> => {
    isAnyEnding = false;
    const jobs = await withAgent(place, host, (client) =>
      client.call(routes.jobs, { query: { active: true } }, { timeoutMs: callMs }),
    );
    const missing = notRunning(before, jobs, await withStore(place, (store) => wantedOn(store, host)));
    isAnyEnding = missing.some(({ isEnding }) => isEnding);
    if (missing.length > 0) {
      throw new FlynnError('unavailable', `${missing.map(({ id }) => id).join(', ')} no longer run`);
    }
    await withStore(place, async (store) => {
      if ((await store.get(cellKeys.host(host.id))) === undefined) {
        throw new FlynnError('unavailable', 'it is not in the cluster');
      }
    });
    if (await hasMember(place, host)) await askMember(place, host);
  };
  const what = `${host.id} to be whole`;
  const { failure } = await waitFor(
    async (): Promise<{ failure?: unknown }> => {
      try {
        await look();
        return {};
      } catch (error) {
        if (isAnyEnding || performance.now() - since < settleMs) throw error;
        return { failure: error };
      }
    },
    { what, deadlineMs: endingMs, intervalMs: 500 },
  );
  if (failure === undefined) return;
  throw new FlynnError('timeout', `waited ${settleMs / 1_000} s for ${what}: ${messageOf(failure)}`, {
    cause: failure,
  });
}

/** A member that answers a linearizable read has caught up with the others. */
async function askMember({ stateDir, cluster, log }: Place, host: Host): Promise<void> {
  const { certificate, privateKey } = await ensureHostCertificate(stateDir, cluster);
  const tls = { ca: hostAuthoritiesOf(cluster), certificate, privateKey };
  await using store = connectEtcd({ endpoints: [clientUrlOf(host.address)], tls, log });
  await store.get(cellKeys.host(host.id), { signal: AbortSignal.timeout(callMs) });
}
