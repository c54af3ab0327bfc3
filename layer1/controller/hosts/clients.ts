/** Talks to host agents: a client per host, by what the host says of itself in the cell. */
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { LineSplitter } from '@flynn/kit/lines';
import { withDeadline } from '@flynn/kit/retry';
import { type AgentAccess, agentClient } from '@flynn/host-agent/agent-client';
import { logLineSchema, routes as hostRoutes } from '@flynn/host-agent/api';
import type { JobUse } from '@flynn/host-agent/api';
import { volumeRoutes } from '@flynn/host-agent/volumes/api';
import type { HostVolume } from '@flynn/host-agent/volumes/api';
import { doctorRoutes } from '@flynn/host-agent/doctor/api';
import type { ClusterExamination } from '@flynn/host-agent/doctor/api';
import type { Duplex } from 'node:stream';
import { askMount, directoryTarget } from '../backup/target.ts';
import type { BackupTarget } from '../backup/target.ts';
import type { CellView } from '../mirrors/cell-view.ts';

const maxLineBytes = 256 * 1024;
const logDeadlineMs = 3_000;
/** An engine takes its time over many files. */
const removalMs = 60_000;

export type AttachOptions = {
  stdin?: boolean | undefined;
  logs?: boolean | undefined;
  columns?: number | undefined;
  rows?: number | undefined;
};

export type ExecOptions = {
  command: readonly string[];
  tty?: boolean | undefined;
  term?: string | undefined;
  columns?: number | undefined;
  rows?: number | undefined;
};

export interface HostClients extends AsyncDisposable {
  /** Throws `unavailable` if the host is lost or cannot be reached. */
  attach(hostId: string, jobId: string, options: AttachOptions, signal: AbortSignal): Promise<Duplex>;
  exec(hostId: string, jobId: string, options: ExecOptions, signal: AbortSignal): Promise<Duplex>;
  stop(hostId: string, jobId: string, signal: AbortSignal): Promise<void>;
  /** What the host's running jobs use: all of them, by one question. */
  usage(hostId: string, signal: AbortSignal): Promise<JobUse[]>;
  /** What jobs keep on the host; with `sizes` it takes some seconds longer where much has to be measured. */
  volumes(hostId: string, options: { sizes: boolean; signal: AbortSignal }): Promise<HostVolume[]>;
  /** `conflict` while a job has it, or the log of one that had it is still read; one that is gone is fine. */
  removeVolume(hostId: string, name: string, signal: AbortSignal): Promise<void>;
  /**
   * The host's directory for backups; what is written is compared with what the host read back: `internal` if it differs. `mount`:
   * what has to be mounted, and where, for it to be written to.
   */
  backups(hostId: string, directory: string, mount?: string): BackupTarget;
  /** Where what the directory is on is mounted on that host, if it is. */
  mountOf(hostId: string, directory: string, signal: AbortSignal): Promise<string | undefined>;
  /** How all hosts and etcd are, as that host's agent sees it. */
  examine(hostId: string, patienceMs: number, signal: AbortSignal): Promise<ClusterExamination>;
  /** The last lines a job wrote; within 3 s or `timeout`. */
  lastLines(hostId: string, jobId: string, lines: number, signal: AbortSignal): Promise<string[]>;
}

export function createHostClients(options: AgentAccess & { cell: CellView }): HostClients {
  const clients = new Map<string, HttpClient>();

  function clientOf(hostId: string): HttpClient {
    const host = options.cell.hosts.snapshot.entries.get(hostId)?.value;
    if (host === undefined)
      throw new FlynnError('unavailable', `host ${hostId} is not in the cluster now: it was lost or is starting`);
    const place = `${host.address} ${host.apiPort} ${host.mutual === undefined ? 'plain' : 'mutual'} ${hostId}`;
    const known = clients.get(place);
    if (known !== undefined) return known;
    const client = agentClient(host, options);
    clients.set(place, client);
    return client;
  }

  return {
    attach: (hostId, job, query, signal) =>
      clientOf(hostId).upgrade(hostRoutes.attach, { params: { job }, query }, { signal, timeoutMs: 65_000 }),
    exec: (hostId, job, { command, ...query }, signal) =>
      clientOf(hostId).upgrade(
        hostRoutes.exec,
        { params: { job }, query: { ...query, command: JSON.stringify(command) } },
        { signal, timeoutMs: 65_000 },
      ),
    stop: (hostId, job, signal) => clientOf(hostId).call(hostRoutes.stop, { params: { job } }, { signal }),
    usage: async (hostId, signal) => (await clientOf(hostId).call(hostRoutes.stats, {}, { signal })).jobs,
    volumes: async (hostId, { sizes, signal }) =>
      clientOf(hostId).call(volumeRoutes.list, { query: sizes ? { sizes } : {} }, { signal }),
    removeVolume: async (hostId, volume, signal) =>
      clientOf(hostId).call(volumeRoutes.remove, { params: { volume } }, { signal, timeoutMs: removalMs }),
    backups: (hostId, directory, mount) => directoryTarget(() => clientOf(hostId), directory, mount),
    async mountOf(hostId, directory, signal) {
      const found = await askMount(clientOf(hostId), directory, signal);
      return found === 'unknown' ? undefined : found.mount;
    },
    examine: async (hostId, patienceMs, signal) =>
      clientOf(hostId).call(doctorRoutes.cluster, { query: { patienceMs } }, { signal, timeoutMs: patienceMs }),
    async lastLines(hostId, job, lines, signal) {
      const limited = withDeadline(logDeadlineMs, signal);
      const body = await clientOf(hostId).stream(
        hostRoutes.log,
        { params: { job }, query: { follow: false, lines } },
        { signal: limited },
      );
      const splitter = new LineSplitter({ maxBytes: maxLineBytes });
      const records: string[] = [];
      for await (const chunk of body) records.push(...splitter.push(chunk));
      records.push(...splitter.flush());
      return records
        .filter((record) => record !== '')
        .map((record) => logLineSchema.parse(JSON.parse(record)).message)
        .slice(-lines);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...clients.values()].map((client) => client.close()));
    },
  };
}
