/**
 * Singletons (jobs of which there must never be two) and the host's lease: when it cannot be renewed, they are stopped before
 * the cell may give them to another host.
 *
 * The budget, back from the moment E before which the lease cannot have expired, on a clock that nobody sets: at E − 2 s
 * TERM, a second later KILL through the engine, at E − 0.5 s KILL by the watchdog, whether agent and engine live or not. The
 * cell gives nothing away before E + 1 s.
 *
 * All at once, not a few at a time as other endings (`jobs/endings.ts`), though of a crowd of them an engine may hang. The
 * crowd would be no smaller: who waited for its turn is killed by the watchdog at E − 0.5 s, together with the others that
 * did. Of 60 on a machine of two cores Docker 20.10 ended the last after 3.5 s four at a time, and after 2 to 3 s all at
 * once: more of them would lose the moment in which a database comes to its end in order. Beginning sooner would stop
 * singletons each time that etcd is away for a moment. Safety does not hang on the engine, for the watchdog kills without it;
 * a host whose engine hangs afterwards takes no new jobs.
 *
 * Where the store says that the lease is gone, E is two seconds from then at most: a machine whose clocks stood still with it, as
 * one that its hypervisor paused, knows no other way that its time is over.
 */
import { pause } from '@flynn/kit/clock';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import type { Lease } from '@flynn/store/store';
import type { ContainerTable } from '../containers/table.ts';
import type { Container, Engine } from '../engine/engine.ts';
import { label, ownLabel, residentOf } from '../engine/labels.ts';

const fenceMs = 2_000;
const termMs = 1_000;
const killMs = 500;
const tickMs = 500;
/** Longer than any start takes: then it is in the table, or will never be. */
const admittedMs = 180_000;
/** A gap this long between two ticks: the agent, or the machine, stood still. */
const frozenMs = 5_000;

type HeldLease = Pick<Lease, 'expiresAtMs' | 'lost'>;

export type FenceWatchdog = {
  guard(deadlineMs: number | undefined, containerIds: readonly string[]): Promise<void>;
  limit(deadlineMs: number): Promise<void>;
};

/**
 * Never a resident job: the cell gives it to nobody else, and the store that runs as one has to come back before any host
 * can have a lease.
 */
export function isSingletonContainer({ labels }: Pick<Container, 'labels'>): boolean {
  return ownLabel(labels, label.singleton) !== undefined && residentOf(labels) === undefined;
}

/**
 * INVARIANTS. Closed until the host's record stands on a lease and everything given away before is known, and while it is
 * another machine's. While it is closed no singleton is started, and those that run are stopped; before there ever was a lease,
 * that is left to the watchdog and the deadline of the agent before this one, but for what another machine may have by now.
 */
export class Fence {
  readonly #engine: Pick<Engine, 'stop'>;
  readonly #containers: Pick<ContainerTable, 'all' | 'onChange'>;
  readonly #watchdog: FenceWatchdog;
  readonly #isAlone: () => boolean;
  readonly #onStop: (container: Container) => void;
  readonly #log: Logger;
  readonly #stopping = new Map<string, Promise<void>>();
  /** Containers about to be started, and since when. */
  readonly #admitted = new Map<string, number>();
  #lease: HeldLease | undefined;
  /** When the lease was told to be gone. */
  #lostAtMs: number | undefined;
  #expected: Pick<Lease, 'expiresAtMs'> | undefined;
  /** Another machine is this host: by when nothing that is guarded runs here, whatever becomes of the lease. */
  #closedAtMs: number | undefined;
  #stops = 0;
  #changed = Promise.withResolvers<void>();

  constructor(options: {
    engine: Pick<Engine, 'stop'>;
    containers: Pick<ContainerTable, 'all' | 'onChange'>;
    watchdog: FenceWatchdog;
    /** The cluster has no other host: nothing can be given away, and what runs runs on. */
    isAlone: () => boolean;
    /** A job is stopped for the lease's sake. */
    onStop: (container: Container) => void;
    log: Logger;
  }) {
    this.#engine = options.engine;
    this.#containers = options.containers;
    this.#watchdog = options.watchdog;
    this.#isAlone = options.isAlone;
    this.#onStop = options.onStop;
    this.#log = options.log;
  }

  /** How many jobs it has stopped. */
  get stops(): number {
    return this.#stops;
  }

  /** How long the lease lasts if it is not renewed any more; undefined before the first. */
  get leftMs(): number | undefined {
    return this.#leaseEndMs === undefined ? undefined : this.#leaseEndMs - performance.now();
  }

  get #leaseEndMs(): number | undefined {
    return this.#lease && Math.min(this.#lease.expiresAtMs, (this.#lostAtMs ?? Infinity) + fenceMs);
  }

  /** Whether a singleton may be started now. */
  get isOpen(): boolean {
    return this.#lease !== undefined && !this.#isClosed && (this.#isAlone() || (this.leftMs ?? 0) > fenceMs);
  }

  /** Before a singleton's start: from here on it is guarded. `unavailable` when it may not be started. */
  async admit(containerId: string): Promise<void> {
    this.#admitted.set(containerId, performance.now());
    if (this.isOpen) await this.#guard();
    if (this.isOpen) return;
    this.#admitted.delete(containerId);
    throw new FlynnError(
      'unavailable',
      this.#isClosed
        ? 'another machine is this host, and may run this job: waiting until there is one (flynn-host doctor)'
        : 'the host has no lease, so another may have been given this job: waiting for it',
    );
  }

  /** The host's record stands on this lease, and what the cell decided before that is known here. */
  hold(lease: HeldLease): void {
    this.#closedAtMs = undefined;
    if (this.#lease !== lease) {
      this.#lease = lease;
      this.#lostAtMs = undefined;
      if (lease.lost.aborted) this.#lose(lease);
      else lease.lost.addEventListener('abort', () => this.#lose(lease), { once: true });
    }
    this.#changed.resolve();
  }

  #lose(lease: HeldLease): void {
    if (this.#lease !== lease) return;
    this.#lostAtMs = performance.now();
    this.#changed.resolve();
  }

  /** The host's record is another machine's, until it is held again. What runs is stopped, alone or not. */
  close(): void {
    this.#closedAtMs ??= performance.now() + fenceMs;
    this.#changed.resolve();
  }

  get #isClosed(): boolean {
    return this.#closedAtMs !== undefined;
  }

  /** The host's record is about to be put on this lease, which may end before what the agent before this one held. */
  async expect(lease: Pick<Lease, 'expiresAtMs'>): Promise<void> {
    this.#expected = lease;
    await this.#limit();
  }

  /** Renewed, it ends later: what was decided before may take its time to be known here. */
  async #limit(): Promise<void> {
    if (this.#lease !== undefined) return;
    const ends = [this.#closedAtMs, this.#expected?.expiresAtMs].filter((end) => end !== undefined);
    if (ends.length > 0) await this.#watchdog.limit(Math.min(...ends) - killMs);
  }

  /** The record stands on a longer lease, to outlive this agent; from here on the watchdog has until that ends. */
  async extend(lease: HeldLease): Promise<void> {
    this.hold(lease);
    await this.#guard();
  }

  /** Resolves when the signal aborts; the watchdog goes on. */
  async run(signal: AbortSignal): Promise<void> {
    const off = this.#containers.onChange(() => this.#changed.resolve());
    let tickedMs = performance.now();
    while (!signal.aborted) {
      const gapMs = performance.now() - tickedMs;
      if (gapMs > frozenMs) this.#log.warn(`the agent stood still for ${Math.round(gapMs / 1_000)} s`);
      tickedMs = performance.now();
      await this.#tick(signal);
      const waitMs = Math.max(50, Math.min(tickMs, (this.leftMs ?? tickMs) - fenceMs));
      await Promise.race([this.#changed.promise, pause(waitMs, signal)]);
      this.#changed = Promise.withResolvers<void>();
    }
    off();
    await Promise.all(this.#stopping.values());
  }

  async #tick(signal: AbortSignal): Promise<void> {
    if (this.#isClosed || (this.#lease !== undefined && !this.isOpen)) {
      for (const container of this.#containers.all().filter(isSingletonContainer)) this.#stop(container, signal);
    }
    for (const [id, sinceMs] of this.#admitted) {
      if (performance.now() - sinceMs > admittedMs) this.#admitted.delete(id);
    }
    try {
      await (this.#lease === undefined ? this.#limit() : this.#guard());
    } catch (error) {
      this.#log.error(`the watchdog could not be told the new deadline: ${messageOf(error)}`);
    }
  }

  async #guard(): Promise<void> {
    const singletons = this.#containers.all().filter(isSingletonContainer);
    const started = singletons.filter(({ state }) => state !== 'exited').map(({ id }) => id);
    const leaseEndMs = this.#isAlone() ? undefined : this.#leaseEndMs;
    const endMs = this.#closedAtMs ?? leaseEndMs;
    const deadlineMs = endMs === undefined ? undefined : endMs - killMs;
    await this.#watchdog.guard(deadlineMs, [...new Set([...started, ...this.#admitted.keys()])]);
  }

  #stop(container: Container, signal: AbortSignal): void {
    if (container.state !== 'running' || this.#stopping.has(container.id)) return;
    this.#stops += 1;
    const why = this.#isClosed ? 'another machine is this host' : 'the lease of the host could not be renewed';
    this.#log.warn({ container: container.name }, `${why}: stopping a job`);
    this.#onStop(container);
    const stopping = this.#engine
      .stop(container.id, { timeoutMs: termMs, signal: withDeadline(fenceMs, signal) })
      .catch((error: unknown) => this.#log.error(`it is left to the watchdog: ${messageOf(error)}`))
      .finally(() => this.#stopping.delete(container.id));
    this.#stopping.set(container.id, stopping);
  }
}
