/** Examines this host: each check by itself, each within its time. */
import { pause } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import { forever } from '@flynn/kit/tasks';
import type { UpdateRecord } from '../update/record.ts';
import { addressFindings } from './address.ts';
import type { AddressFacts } from './address.ts';
import { agentFindings } from './agent-state.ts';
import type { AgentFacts } from './agent-state.ts';
import type { HostExamination } from './api.ts';
import { certificateFindings } from './certificates.ts';
import type { KnownCertificate } from './certificates.ts';
import { diskFindings, readDisks } from './disks.ts';
import type { DiskRoom } from './disks.ts';
import { driftFindings } from './drift.ts';
import type { DriftFacts } from './drift.ts';
import { Sightings, examine, lessThan } from './finding.ts';
import type { Check, Finding, Found, Verdict } from './finding.ts';
import { kernelFindings, readKernelSettings } from './kernel.ts';
import { countInotify, limitFindings, readKernelCounts } from './limits.ts';
import type { Crowding, KernelCounts } from './limits.ts';
import { updateFindings } from './versions.ts';

export type HostDoctorDeps = Readonly<{
  hostId: string;
  version: string;
  engineVersion: string;
  scheduler: () => HostExamination['scheduler'];
  /** What is on the disks that matter. */
  places: readonly { holds: string; path: string }[];
  agentFacts: (signal: AbortSignal) => Promise<AgentFacts>;
  /** Undefined while the engine does not answer: then nothing can be concluded. */
  drift: () => DriftFacts | undefined;
  certificates: () => Promise<readonly KnownCertificate[]>;
  /** Of the cluster, that this host is at, or has left where it was. */
  update: () => Promise<UpdateRecord | undefined>;
  address: () => Promise<AddressFacts>;
  /** Whether the containers of other hosts are reached. */
  reach?: (subject: string, signal: AbortSignal) => Promise<readonly Found[]>;
  /** Undefined while there is room for connections, or nobody is known. */
  crowding?: () => Crowding | undefined;
  /** Of all processors; undefined while it is not known. */
  cpuUsedPercent: () => number | undefined;
  now: () => number;
  read?: Readings;
}>;

/** What the machine says; tests say something else. */
export type Readings = Readonly<{
  disks: typeof readDisks;
  counts: typeof readKernelCounts;
  settings: typeof readKernelSettings;
}>;

const machine: Readings = { disks: readDisks, counts: readKernelCounts, settings: readKernelSettings };

/** So that it is known since when something is so. */
const everyMs = 60_000;
const ownPatienceMs = 10_000;
/** A look at every descriptor of the machine: every so many rounds. */
const inotifyEvery = 10;

export class HostDoctor {
  readonly #deps: HostDoctorDeps;
  readonly #sightings = new Sightings();
  #last: readonly Finding[] = [];
  /** Since when something is so is by its own looks then, and by those of whoever asks before there are any. */
  #isWatching = false;
  #inotifyInstances = 0;

  constructor(deps: HostDoctorDeps) {
    this.#deps = deps;
  }

  /** Of the last look of every minute: whoever asks in between, with less patience, changes nothing of it. */
  get findings(): readonly Finding[] {
    return this.#last;
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal, log: Logger): Promise<void> {
    let rounds = 0;
    const look = async (limited: AbortSignal): Promise<void> => {
      if (rounds % inotifyEvery === 0) this.#inotifyInstances = await countInotify();
      rounds += 1;
      await this.watch(limited);
      await pause(everyMs, limited);
    };
    await forever('examining the host', look, { signal, log });
  }

  /** The look of every minute: figures and since when something is so are by this one alone. */
  async watch(signal: AbortSignal): Promise<HostExamination> {
    this.#isWatching = true;
    const seen = await this.#examine(ownPatienceMs, (verdict) => this.#dated(verdict), signal);
    this.#last = seen.findings;
    return seen;
  }

  /** For whoever asks. */
  async examine(patienceMs: number, signal: AbortSignal): Promise<HostExamination> {
    const recalled = (verdict: Verdict): Finding[] => this.#sightings.recalled(verdict.findings, this.#deps.now());
    return this.#examine(patienceMs, this.#isWatching ? recalled : (verdict) => this.#dated(verdict), signal);
  }

  #dated({ findings, unknown }: Verdict): Finding[] {
    const failed = new Set(unknown.map(({ check }) => check));
    return this.#sightings.dated(findings, this.#deps.now(), (check) => !failed.has(check));
  }

  async #examine(
    patienceMs: number,
    findingsOf: (verdict: Verdict) => Finding[],
    signal: AbortSignal,
  ): Promise<HostExamination> {
    const { hostId, version, engineVersion, now, read = machine } = this.#deps;
    const subject = `host ${hostId}`;
    const deadlineMs = lessThan(patienceMs);
    let agent: AgentFacts | undefined;
    let disks: readonly DiskRoom[] = [];
    let counts: KernelCounts | undefined;
    const checks: Check[] = [
      {
        name: 'agent',
        find: async (limited) => {
          agent = await this.#deps.agentFacts(withDeadline(lessThan(deadlineMs), limited));
          return agentFindings(subject, agent);
        },
      },
      {
        name: 'disks',
        find: async () => {
          disks = await read.disks(this.#deps.places);
          return diskFindings(subject, disks);
        },
      },
      {
        name: 'limits',
        find: async () => {
          counts = await read.counts(this.#inotifyInstances);
          return limitFindings(subject, counts, this.#deps.crowding?.());
        },
      },
      { name: 'address', find: async () => addressFindings(subject, await this.#deps.address()) },
      { name: 'reach', find: async (limited) => (await this.#deps.reach?.(subject, limited)) ?? [] },
      { name: 'kernel', find: async () => kernelFindings(subject, await read.settings()) },
      {
        name: 'certificates',
        find: async () => certificateFindings(subject, await this.#deps.certificates(), now()),
      },
      { name: 'update', find: async () => updateFindings(subject, await this.#deps.update()) },
      {
        name: 'drift',
        find: () => {
          const facts = this.#deps.drift();
          return facts === undefined ? [] : driftFindings(subject, facts, now());
        },
      },
    ];
    const verdict = await examine(checks, { subject, deadlineMs, signal });
    const { memory } = counts ?? {};
    const cpuUsedPercent = this.#deps.cpuUsedPercent();
    return {
      hostId,
      now: now(),
      version,
      engine: {
        isConnected: agent?.isEngineConnected ?? false,
        ...(agent?.engineHang === undefined ? {} : { isHung: true }),
        version: engineVersion,
      },
      store: { isReachable: agent !== undefined && agent.storeError === undefined },
      scheduler: this.#deps.scheduler(),
      ...(disks.length === 0 ? {} : { diskUsedPercent: Math.max(...disks.map(({ usedPercent }) => usedPercent)) }),
      ...(memory === undefined
        ? {}
        : { memoryUsedPercent: Math.round((1 - memory.availableBytes / memory.totalBytes) * 1_000) / 10 }),
      ...(cpuUsedPercent === undefined ? {} : { cpuUsedPercent }),
      findings: findingsOf(verdict),
      unknown: verdict.unknown,
    };
  }
}
