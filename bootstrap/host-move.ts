/** One host of the cluster from one version to another, by its agent, while its jobs run on. */
import { createReadStream } from 'node:fs';
import { clientUrlOf } from '@flynn/host-agent/cluster/etcd-resident';
import { memberKey } from '@flynn/host-agent/cluster/member-keys';
import { type AgentPlace, agentClient } from '@flynn/host-agent/agent-client';
import { routes } from '@flynn/host-agent/api';
import { installationRoutes } from '@flynn/host-agent/installation';
import { readHostIdentity } from '@flynn/host-agent/trust/host-trust';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import type { Logger } from '@flynn/kit/log';
import { retry, waitFor } from '@flynn/kit/retry';
import { cellKeys, hostRecordSchema } from '@flynn/scheduler/cell';
import { connectEtcd } from '@flynn/store/etcd';
import type { Store } from '@flynn/store/store';
import { leasesOf } from './admission.ts';
import { ensureHostCertificate } from './certificates.ts';
import { withStore } from './controller.ts';
import type { Cluster } from './settings.ts';
import type { Report } from './timed.ts';

export type Place = Readonly<{ stateDir: string; cluster: Cluster; log: Logger }>;
export type Host = AgentPlace;
export type BundleCopy = Readonly<{ file: string; sha256: string }>;

/** Loading a bundle's images takes the most of it. */
const moveMs = 10 * 60_000;
const callMs = 10_000;
const settleMs = 120_000;

/** Those that are there, in the order of their names. */
export async function hostsOf(store: Store): Promise<Host[]> {
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

/** As the host says of itself at the moment: agents of one version know certificates, those of another perhaps not. */
async function withAgent<T>(place: Place, host: Host, task: (client: HttpClient) => Promise<T>): Promise<T> {
  const entry = await withStore(place, (store) => store.get(cellKeys.host(host.id)));
  const now = entry === undefined ? host : hostRecordSchema.parse(JSON.parse(entry.value));
  const identity = await readHostIdentity(place.stateDir);
  await using client = agentClient(now, { key: place.cluster.key, identity });
  return await task(client);
}

export function versionOfHost(place: Place, host: Host): Promise<string> {
  return withAgent(place, host, async (client) => (await client.call(routes.host, {}, { timeoutMs: callMs })).version);
}

/**
 * Answers once the host serves as one of the version, runs what it ran before, and its member of the store has caught up.
 * Where it is of that version already this is only looked at.
 */
export async function moveHost(
  place: Place,
  host: Host,
  { version, bundle, report }: { version: string; bundle?: BundleCopy | undefined; report: Report },
): Promise<'moved' | 'there already'> {
  // Right after another host was moved, an answer may be late.
  const asking = { what: `asking ${host.id}`, deadlineMs: settleMs, maxMs: 1_000 };
  const before = await retry(() => runningOn(place, host), asking);
  const isThere = (await retry(() => versionOfHost(place, host), asking)) === version;
  if (!isThere) {
    await withAgent(place, host, async (client) => {
      if (bundle !== undefined) {
        report('sending the bundle');
        const body = createReadStream(bundle.file, { highWaterMark: 1024 ** 2 });
        await client.call(installationRoutes.put, { query: { sha256: bundle.sha256 }, body });
      }
      report('its agent is being replaced');
      await client.call(installationRoutes.use, { params: { version } }, { timeoutMs: callMs });
    });
    await untilOf(place, host, version);
  }
  report('waiting for its jobs and its part of the store');
  await untilWhole(place, host, before);
  return isThere ? 'there already' : 'moved';
}

/** An agent that is being replaced does not answer for a moment. */
async function untilOf(place: Place, host: Host, version: string): Promise<void> {
  try {
    await waitFor(async () => (await versionOfHost(place, host)) === version, {
      what: `${host.id} to be of version ${version}`,
      deadlineMs: moveMs,
      intervalMs: 500,
    });
  } catch (error) {
    if (!hasCode(error, 'timeout')) throw error;
    throw new FlynnError(
      'timeout',
      `${messageOf(error)}; update.log in its state directory tells what was done there, agent.log (or journalctl) what the agent says`,
      { cause: error },
    );
  }
}

async function runningOn(place: Place, host: Host): Promise<ReadonlySet<string>> {
  const jobs = await withAgent(place, host, (client) =>
    client.call(routes.jobs, { query: { active: true } }, { timeoutMs: callMs }),
  );
  return new Set(jobs.filter(({ state }) => state === 'running').map(({ id }) => id));
}

/** What was scaled down or moved in the meantime is not asked for again. */
export function notRunning(before: ReadonlySet<string>, now: readonly { id: string; state: string }[]): string[] {
  return now.filter(({ id, state }) => before.has(id) && state !== 'running').map(({ id }) => id);
}

async function untilWhole(place: Place, host: Host, before: ReadonlySet<string>): Promise<void> {
  await waitFor(
    async () => {
      const jobs = await withAgent(place, host, (client) =>
        client.call(routes.jobs, { query: { active: true } }, { timeoutMs: callMs }),
      );
      const missing = notRunning(before, jobs);
      if (missing.length > 0) throw new FlynnError('unavailable', `${missing.join(', ')} no longer run`);
      await withStore(place, async (store) => {
        if ((await store.get(cellKeys.host(host.id))) === undefined) {
          throw new FlynnError('unavailable', 'it is not in the cluster');
        }
        if ((await store.get(memberKey(host.id))) !== undefined) await askMember(place, host);
      });
      return true;
    },
    { what: `${host.id} to be whole`, deadlineMs: settleMs, intervalMs: 500 },
  );
}

/** A member that answers a linearizable read has caught up with the others. */
async function askMember({ stateDir, cluster, log }: Place, host: Host): Promise<void> {
  const { certificate, privateKey } = await ensureHostCertificate(stateDir, cluster);
  const tls = { ca: cluster.authority.certificate, certificate, privateKey };
  await using store = connectEtcd({ endpoints: [clientUrlOf(host.address)], tls, log });
  await store.get(cellKeys.host(host.id), { signal: AbortSignal.timeout(callMs) });
}
