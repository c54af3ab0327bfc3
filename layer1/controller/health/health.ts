/** Puts together how the cluster is: what agents tell of hosts and etcd, and what the controller knows of its own. */
import { pause } from '@flynn/kit/clock';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { forever } from '@flynn/kit/tasks';
import type { ClusterExamination, ExaminedHost } from '@flynn/host-agent/doctor/api';
import type { KnownCertificate } from '@flynn/host-agent/doctor/certificates';
import { certificateFindings } from '@flynn/host-agent/doctor/certificates';
import { Sightings, examine, healthOf, lessThan, together } from '@flynn/host-agent/doctor/finding';
import type { Check, Finding, Verdict } from '@flynn/host-agent/doctor/finding';
import { workFindings } from '@flynn/host-agent/doctor/work';
import { certificateType } from '../certificates/resources.ts';
import { matchingHosts, seenStatuses, valuesOf } from '../mirrors/cell-view.ts';
import { appIdOf } from '../processes/compile.ts';
import type { Deps } from '../deps.ts';
import type { Process } from '../processes/process.ts';
import { appType, formationType, releaseType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import type { ClusterHealth, Component, HealthEvent, Target } from './api.ts';
import { routeCertificateFindings } from './certificates.ts';
import { componentFindings, componentsOf } from './components.ts';
import type { HealthEvents } from './events.ts';
import { notedTerms, readTerm, seatFindings } from './seat.ts';
import type { Term } from './seat.ts';
import { stuckFindings } from './stuck.ts';
import { targetsOf } from './targets.ts';
import { Unseen } from './unseen.ts';

/** So that it is known since when something is so, and told in the log when it begins. */
const everyMs = 60_000;
const ownPatienceMs = 10_000;
/** The first answer counts: an agent that hangs must not be the only one asked. */
const agentsAsked = 2;

type HealthDeps = Pick<
  Deps,
  'store' | 'resources' | 'cell' | 'hosts' | 'operations' | 'deployments' | 'runners' | 'settings' | 'log' | 'now'
>;

export class HealthWatch {
  readonly #deps: HealthDeps;
  readonly #certificates: readonly KnownCertificate[];
  readonly #more: readonly Check[];
  readonly #events: HealthEvents | undefined;
  readonly #sightings = new Sightings();
  readonly #unseen = new Unseen();
  /** Of the looks of every minute. */
  #terms: readonly Term[] = [];
  #last: ClusterHealth | undefined;

  /** `checks`: beside its own. `events`: where is told what began and ended. */
  constructor(
    deps: HealthDeps,
    options: { certificates?: readonly KnownCertificate[]; checks?: readonly Check[]; events?: HealthEvents } = {},
  ) {
    this.#deps = deps;
    this.#certificates = options.certificates ?? [];
    this.#more = options.checks ?? [];
    this.#events = options.events;
  }

  /** Of the last look of every minute: whoever asks in between, with less patience, changes nothing of it. */
  get last(): ClusterHealth | undefined {
    return this.#last;
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { log } = this.#deps;
    let known = new Set<string>();
    const look = async (limited: AbortSignal): Promise<void> => {
      const { findings, unknown } = await this.watch(limited);
      const grave = findings.filter(({ severity }) => severity === 'critical');
      for (const finding of grave) if (!known.has(keyOf(finding))) log.error({ finding }, textOf(finding));
      known = new Set(grave.map(keyOf));
      await this.#events?.record({ findings, unknown }, limited);
      await pause(everyMs, limited);
    };
    await forever('looking how the cluster is', look, { signal, log });
  }

  /** The look of every minute: figures and since when something is so are by this one alone. */
  async watch(signal: AbortSignal): Promise<ClusterHealth> {
    const { now } = this.#deps;
    const remembered = (seen: Verdict): Finding[] => {
      this.#unseen.note(seen.unknown, now());
      return this.#sightings.dated(this.#withUnseen(seen), now());
    };
    await this.#noteTerm(signal);
    this.#last = await this.#look(ownPatienceMs, remembered, signal);
    return this.#last;
  }

  /** For whoever asks. Answers within the patience, and a little for reading what is at hand. */
  async look(patienceMs: number, signal: AbortSignal): Promise<ClusterHealth> {
    const { now } = this.#deps;
    const recalled = (seen: Verdict): Finding[] => this.#sightings.recalled(this.#withUnseen(seen), now());
    return this.#look(patienceMs, recalled, signal);
  }

  /** A store that does not answer is told by its own check, and says nothing of who leads. */
  async #noteTerm(signal: AbortSignal): Promise<void> {
    try {
      this.#terms = notedTerms(this.#terms, await readTerm(this.#deps.store, withDeadline(ownPatienceMs, signal)));
    } catch (error) {
      this.#deps.log.debug({ err: error }, 'who leads the worker cannot be read');
    }
  }

  #withUnseen(seen: Verdict): Finding[] {
    const findings = this.#unseen.findings(seen.unknown, this.#deps.now());
    return findings.length === 0 ? seen.findings : together([seen, { findings, unknown: [] }]).findings;
  }

  async #look(
    patienceMs: number,
    findingsOf: (seen: Verdict) => Finding[],
    signal: AbortSignal,
  ): Promise<ClusterHealth> {
    const { settings, now } = this.#deps;
    const deadlineMs = lessThan(patienceMs);
    const limited = withDeadline(patienceMs, signal);
    const apps = this.#apps(limited);
    let cluster: ClusterExamination | undefined;
    let components: Component[] = [];
    const events = this.#recentEvents(limited);
    const asking = this.#askAgents(lessThan(deadlineMs), limited).then((answer) => (cluster = answer));
    // That it failed is for the check `hosts` to tell; the others look at what there is.
    const answered = asking.catch(() => undefined);
    const checks: Check[] = [
      {
        name: 'hosts',
        // What agents found is put beside what is found here.
        find: async () => {
          await asking;
          return [];
        },
      },
      {
        name: 'components',
        find: async (until) => {
          const [facts] = await Promise.all([this.#componentFacts(await apps, until), answered]);
          components = componentsOf({ ...facts, hosts: cluster?.hosts, etcd: cluster?.etcd ?? [] });
          return componentFindings(components);
        },
      },
      { name: 'work', find: async () => this.#work(await apps) },
      { name: 'operations', find: async () => this.#stuck(await apps) },
      { name: 'worker', find: async () => seatFindings(this.#terms) },
      {
        name: 'certificates',
        find: async (until) => [
          ...certificateFindings('controller', this.#certificates, now()),
          ...routeCertificateFindings(await this.#deps.resources.list(certificateType, { signal: until }), now()),
        ],
      },
      ...this.#more,
    ];
    const own = await examine(checks, { subject: 'the cluster', deadlineMs, signal });
    const seen = together(cluster === undefined ? [own] : [own, cluster]);
    const verdict = { findings: findingsOf(seen), unknown: seen.unknown };
    return {
      cluster: settings.name,
      version: settings.version,
      checkedAt: new Date(now()).toISOString(),
      health: healthOf(verdict),
      components,
      hosts: cluster?.hosts ?? this.#knownHosts(),
      etcd: cluster?.etcd ?? [],
      events: await events,
      ...verdict,
    };
  }

  /** Where figures are read: every host's agent, every job of the platform's own apps. */
  async targets(signal: AbortSignal): Promise<Target[]> {
    const { cell } = this.#deps;
    const own = new Set((await this.#apps(signal)).filter(({ spec }) => spec.isSystem).map(({ id }) => id));
    const statuses = seenStatuses(cell, ({ workloadId }) => own.has(appIdOf(workloadId)));
    return targetsOf(
      valuesOf(cell.hosts),
      statuses.filter(({ isUncertain }) => !isUncertain),
    );
  }

  /** How it is now counts more than what was: a store that does not answer is told by its own check. */
  async #recentEvents(signal: AbortSignal): Promise<HealthEvent[]> {
    try {
      return (await this.#events?.recent(signal)) ?? [];
    } catch (error) {
      this.#deps.log.debug({ err: error }, 'what happened lately cannot be read');
      return [];
    }
  }

  async #apps(signal: AbortSignal): Promise<readonly AppResource[]> {
    return this.#deps.resources.list(appType, { signal });
  }

  async #askAgents(patienceMs: number, signal: AbortSignal): Promise<ClusterExamination> {
    const { cell, hosts } = this.#deps;
    const ids = shuffled([...cell.hosts.snapshot.entries.keys()]).slice(0, agentsAsked);
    if (ids.length === 0) throw new FlynnError('unavailable', 'no host is in the cell');
    try {
      return await Promise.any(ids.map((id) => hosts.examine(id, patienceMs, signal)));
    } catch (error) {
      const why = error instanceof AggregateError ? error.errors.map(messageOf).join('; ') : messageOf(error);
      throw new FlynnError('unavailable', why, { cause: error });
    }
  }

  async #componentFacts(apps: readonly AppResource[], signal: AbortSignal) {
    const { resources, cell } = this.#deps;
    const own = apps.filter(({ spec }) => spec.isSystem);
    const ids = new Set(own.map(({ id }) => id));
    const [releases, formations] = await Promise.all([
      resources.list(releaseType, { signal, where: ({ spec }) => ids.has(spec.appId) }),
      resources.list(formationType, { signal, where: ({ spec }) => ids.has(spec.appId) }),
    ]);
    return {
      apps: own,
      releases,
      formations,
      statuses: seenStatuses(cell, ({ workloadId }) => ids.has(appIdOf(workloadId))),
      hostsFor: ({ constraints = [] }: Pick<Process, 'constraints'>) => matchingHosts(cell, constraints).length,
    };
  }

  #work(apps: readonly AppResource[]) {
    const { cell, now } = this.#deps;
    const names = namesOf(apps);
    const assignments = new Map([...cell.assignments.snapshot.entries].map(([key, { value }]) => [key, value]));
    return workFindings(
      {
        workloads: valuesOf(cell.workloads),
        evaluations: valuesOf(cell.evaluations),
        statuses: valuesOf(cell.statuses),
        assignments,
        present: new Set(cell.hosts.snapshot.entries.keys()),
        nameOf: (workloadId) => names.get(appIdOf(workloadId)) ?? `workload ${workloadId}`,
      },
      now(),
    );
  }

  #stuck(apps: readonly AppResource[]) {
    const { operations, deployments, runners, now } = this.#deps;
    const names = namesOf(apps);
    return stuckFindings(
      {
        operations: valuesOf(operations),
        deployments: valuesOf(deployments),
        runners: valuesOf(runners),
        nameOf: (appId) => names.get(appId) ?? `app ${appId}`,
      },
      now(),
    );
  }

  /** While no agent answers: what the cell says. */
  #knownHosts(): ExaminedHost[] {
    const { hosts, settings, claims } = this.#deps.cell;
    const ids = new Set([...hosts.snapshot.entries.keys(), ...settings.snapshot.entries.keys()]);
    return [...ids].toSorted().map((id): ExaminedHost => {
      const record = hosts.snapshot.entries.get(id)?.value;
      const jobs = claims.snapshot.entries.get(id)?.value.jobs ?? 0;
      if (record === undefined) return { id, state: 'away', jobs };
      return { id, state: 'silent', address: record.address, startedAt: record.startedAt, jobs };
    });
  }
}

function namesOf(apps: readonly AppResource[]): Map<string, string> {
  return new Map(apps.map(({ id, spec }) => [id, `app ${spec.name}`]));
}

function keyOf({ check, subject, since }: Finding): string {
  return `${check} ${subject} ${since ?? ''}`;
}

function textOf({ subject, what, remedy }: Finding): string {
  return `${subject}: ${what}; ${remedy}`;
}

function shuffled(ids: readonly string[]): string[] {
  return ids
    .map((id) => ({ id, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ id }) => id);
}
