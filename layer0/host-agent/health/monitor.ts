/**
 * Watches one running job: checks its health, keeps discovery in step, says when it came up, went down, hangs or never came up.
 * Its roles are watched along with it and have no part in any of this.
 */
import { pause, systemClock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import type { HealthCheck } from '@flynn/scheduler/ports';
import type { HostJob } from '@flynn/scheduler/cell';
import type { Announcer, Instance } from '../discovery/announcer.ts';
import { announce, withdraw } from '../discovery/announcer.ts';
import type { CheckedPort, CheckedRole } from './health.ts';
import {
  announcedNamesOf,
  checkedPortsOf,
  failingForMs,
  failingLimitMs,
  isReachable,
  isSteady,
  judge,
  probe,
  rolesOf,
  unknownVerdict,
  untilRefused,
  waitMs,
} from './health.ts';
import { identityAttribute } from '@flynn/discovery/parts';
import { groupOf, label } from '../engine/labels.ts';
import { watchRole } from './role-watch.ts';

export type MonitorEvents = {
  /** Every port is up and announced. At once for a job without announced ports. */
  onUp(): void;
  onDown(message: string, failingMs: number): void;
  onNeverUp(message: string): void;
  /** It takes long to come up, and this is why. */
  onAstray(message: string): void;
  /** It was up for `wellMs`, and has been failing ever since, longer than it may. */
  onHung(message: string, wellMs: number): void;
  /** Whether it has a role whose holder goes last: told after each look at such a role. */
  onGoesLast(isSo: boolean): void;
};

/** Not up for so long although its container is, and the log says what it waits for: long before it is given up. */
const slowAfterMs = 15_000;

/** What one port's check has told so far, on a clock that nobody sets. */
type Failing = { atMs: number; sinceMs: number; forMs: number };

/**
 * INVARIANTS. An instance is announced only while its check is up, that of a port or of a role. After `stop()` resolved, none of
 * the job's instances is announced, unless it was stopped to leave them: then the next agent takes them over.
 */
export class JobMonitor {
  readonly #job: HostJob;
  readonly #address: string;
  readonly #hostId: string;
  readonly #identity: string | undefined;
  readonly #mayBeAnnounced: boolean;
  readonly #wasUp: boolean;
  readonly #random: () => number;
  readonly #isReachable: typeof isReachable;
  readonly #patience: number;
  readonly #listensItself: (port: number) => boolean;
  readonly #listensElsewhere: (port: number) => string | undefined;
  readonly #announcer: Announcer;
  readonly #events: MonitorEvents;
  readonly #log: Logger;
  readonly #ending = new AbortController();
  readonly #ports: CheckedPort[];
  readonly #up = new Set<CheckedPort>();
  /** What each port that is not up waits for, for people. */
  readonly #awaited = new Map<CheckedPort, string>();
  readonly #running: Promise<unknown>;
  #hasBeenUp = false;
  #isDone = false;

  constructor(options: {
    job: HostJob;
    address: string;
    hostId: string;
    /** As which its container can prove who it is, if it can. */
    identity?: string | undefined;
    /** An agent before this one watched it. */
    mayBeAnnounced: boolean;
    /** It has been up in this run, as an agent before this one saw. */
    wasUp?: boolean;
    /** Whether it is the job that listens at a port of its address, where others may; without it is nobody else's address. */
    listensItself?: ((port: number) => boolean) | undefined;
    /** Why nobody reaches it at a port, where that can be told. */
    listensElsewhere?: ((port: number) => string | undefined) | undefined;
    /** How many times as long as its checks say it may take to come up. */
    patience?: number;
    /** From 0 to 1: no two jobs that hang for the same reason are stopped at the same time. */
    random?: () => number;
    isReachable?: typeof isReachable;
    /** Resolves when its coming up takes so long that the log tells of it, and when the signal aborts. */
    untilSlow?: (signal: AbortSignal) => Promise<void>;
    announcer: Announcer;
    events: MonitorEvents;
    log: Logger;
  }) {
    this.#job = options.job;
    this.#address = options.address;
    this.#hostId = options.hostId;
    this.#identity = options.identity;
    this.#mayBeAnnounced = options.mayBeAnnounced;
    this.#wasUp = options.wasUp ?? false;
    this.#random = options.random ?? Math.random;
    this.#isReachable = options.isReachable ?? isReachable;
    this.#patience = options.patience ?? 1;
    this.#listensItself = options.listensItself ?? (() => true);
    this.#listensElsewhere = options.listensElsewhere ?? (() => undefined);
    this.#announcer = options.announcer;
    this.#events = options.events;
    this.#log = options.log;
    this.#ports = checkedPortsOf(options.job);
    const { untilSlow = (signal) => pause(slowAfterMs, signal) } = options;
    if (this.#ports.length === 0) this.#events.onUp();
    const ports = this.#ports.map((port) => this.#watch(() => this.#follow(port)));
    const roles = rolesOf(options.job).map((role) => this.#watch(() => this.#followRole(role)));
    // One that has been up before was told as unhealthy.
    const isComing = this.#ports.length > 0 && !this.#wasUp;
    const slow = isComing ? [this.#watch(() => this.#followSlow(untilSlow))] : [];
    this.#running = Promise.all([...ports, ...roles, ...slow]);
  }

  async #watch(follow: () => Promise<void>): Promise<void> {
    try {
      await follow();
    } catch (error) {
      if (!this.#ending.signal.aborted) this.#log.error({ err: error, jobId: this.#job.id }, 'watching a job failed');
    }
  }

  async #follow(port: CheckedPort): Promise<void> {
    if (port.check === undefined) await this.#rise(port);
    else await this.#check(port, port.check);
  }

  async #followRole(role: CheckedRole): Promise<void> {
    const instance = this.#instanceOf(role.name, role.port);
    const onLook = role.goesLast === true ? (isHeld: boolean) => this.#events.onGoesLast(isHeld) : undefined;
    const more = { address: this.#address, mayBeAnnounced: this.#mayBeAnnounced, onLook, log: this.#log };
    await watchRole({ role, instance, announcer: this.#announcer, ...more }, this.#ending.signal);
  }

  async #check(port: CheckedPort, check: HealthCheck): Promise<void> {
    const { signal } = this.#ending;
    // Not the wall clock: one that is set forward must not make an app late.
    const startedMs = performance.now();
    const startTimeoutMs = check.startTimeoutMs * this.#patience;
    const limitMs = failingLimitMs(check, this.#random());
    let verdict = unknownVerdict;
    let failing: Failing | undefined;
    let isNetworkBlamed = false;
    let refusals = 0;
    while (!signal.aborted) {
      const target = { address: this.#address, port: port.port };
      const before = verdict;
      const refusal = await (isSteady(before, check) ? untilRefused : probe)(check, target, signal);
      if (signal.aborted) return;
      const problem = refusal ?? (before.hasBeenUp ? undefined : this.#othersAnswer(port));
      if (problem !== undefined && !before.hasBeenUp) this.#awaited.set(port, problem);
      verdict = judge(verdict, problem === undefined, check.threshold);
      if (verdict.isUp && !before.isUp) await this.#rise(port);
      failing = problem === undefined ? undefined : failingOn(failing, check, performance.now());
      if (!verdict.isUp && before.isUp) await this.#fall(port, problem ?? 'unhealthy', failing);
      if (!verdict.hasBeenUp) refusals += 1;
      // It became so while no agent was here, and is still announced as what it was.
      if (this.#mayBeAnnounced && !verdict.hasBeenUp && refusals === check.threshold) {
        if (this.#wasUp) {
          verdict = { ...verdict, hasBeenUp: true };
          await this.#fall(port, problem ?? 'unhealthy', failing);
        } else await withdraw(this.#announcer, port.service, this.#job.id, { log: this.#log });
      }
      if (verdict.hasBeenUp && !verdict.isUp && failing !== undefined && failing.forMs >= limitMs) {
        const isNetworks = !(await this.#isReachable(target, { timeoutMs: check.timeoutMs, signal }));
        if (signal.aborted) return;
        if (!isNetworks) return this.#hang(problem ?? 'unhealthy', failing, failing.sinceMs - startedMs);
        if (!isNetworkBlamed) this.#blameNetwork(port, failing);
        isNetworkBlamed = true;
      }
      const elapsedMs = performance.now() - startedMs;
      if (!verdict.hasBeenUp && !this.#wasUp && elapsedMs >= startTimeoutMs) {
        const astray = this.#astray(port);
        this.#giveUp(
          `not healthy ${Math.round(startTimeoutMs / 1000)} s after its start: ${problem ?? 'no answer'}${astray === undefined ? '' : `; ${astray}`}`,
        );
        return;
      }
      const left = verdict.hasBeenUp || this.#wasUp ? Infinity : Math.max(1, startTimeoutMs - elapsedMs);
      await systemClock.sleep(Math.min(waitMs(verdict, check, performance.now()), left), { signal });
    }
  }

  /** Until it has been up: the job that it is to replace answers in its place, and would be stopped before it listens. */
  #othersAnswer({ port }: CheckedPort): string | undefined {
    if (this.#listensItself(port)) return undefined;
    return `something answers on port ${port} of this host, but the job does not listen there`;
  }

  #instanceOf(service: string, port: number): Instance {
    return {
      service,
      id: this.#job.id,
      address: `${this.#address}:${port}`,
      attributes: {
        ...this.#job.template.meta,
        host: this.#hostId,
        [label.group]: groupOf(this.#job),
        ...(this.#identity === undefined ? {} : { [identityAttribute]: this.#identity }),
      },
    };
  }

  async #rise(port: CheckedPort): Promise<void> {
    const instance = this.#instanceOf(port.service, port.port);
    this.#awaited.set(port, 'its check is passed, discovery has not taken it yet');
    await announce(this.#announcer, instance, { signal: this.#ending.signal, log: this.#log });
    this.#up.add(port);
    if (this.#up.size < this.#ports.length || this.#isDone) return;
    this.#hasBeenUp = true;
    this.#events.onUp();
  }

  async #fall(port: CheckedPort, problem: string, failing: Failing | undefined): Promise<void> {
    this.#up.delete(port);
    this.#log.warn({ jobId: this.#job.id, service: port.service }, `unhealthy, out of discovery: ${problem}`);
    this.#events.onDown(`unhealthy: ${problem}`, failing === undefined ? 0 : failing.atMs - failing.sinceMs);
    await withdraw(this.#announcer, port.service, this.#job.id, { log: this.#log });
  }

  async #followSlow(untilSlow: (signal: AbortSignal) => Promise<void>): Promise<void> {
    await untilSlow(this.#ending.signal);
    if (this.#isDone || this.#hasBeenUp) return;
    const waiting = this.#ports
      .filter((port) => !this.#up.has(port))
      .map(
        (port) => `${port.service} on port ${port.port}: ${this.#awaited.get(port) ?? 'the first look is not through'}`,
      );
    for (const port of this.#ports) {
      const astray = this.#up.has(port) ? undefined : this.#astray(port);
      if (astray !== undefined) this.#events.onAstray(`nobody reaches it on port ${checkedAt(port)} yet: ${astray}`);
    }
    const seconds = slowAfterMs / 1000;
    this.#log.warn(
      { jobId: this.#job.id, address: this.#address },
      `its container has been up for ${seconds} s and the job is not: ${waiting.join('; ')}`,
    );
  }

  #astray(port: CheckedPort): string | undefined {
    return this.#listensElsewhere(checkedAt(port));
  }

  #giveUp(message: string): void {
    if (this.#isDone || this.#hasBeenUp) return;
    this.#isDone = true;
    this.#events.onNeverUp(message);
  }

  #hang(problem: string, failing: Failing, wellMs: number): void {
    if (this.#isDone) return;
    this.#isDone = true;
    const seconds = Math.round(failing.forMs / 1000);
    this.#events.onHung(`its check failed for ${seconds} s, so it was stopped: ${problem}`, wellMs);
  }

  #blameNetwork({ service }: CheckedPort, failing: Failing): void {
    const seconds = Math.round(failing.forMs / 1000);
    this.#log.warn(
      { jobId: this.#job.id, service },
      `unhealthy for ${seconds} s, and not stopped for it: its address does not answer at all, so this host's network is to blame`,
    );
  }

  /** With `keepAnnounced` the instances stay until their lease runs out: the agent goes, the job does not. */
  async stop(options: { keepAnnounced: boolean }): Promise<void> {
    this.#isDone = true;
    this.#ending.abort();
    await this.#running;
    if (options.keepAnnounced) return;
    // Also what is not known to be announced: an announcement cut short may have gone through.
    const names = announcedNamesOf(this.#job);
    await Promise.all(names.map((name) => withdraw(this.#announcer, name, this.#job.id, { log: this.#log })));
  }
}

function failingOn(before: Failing | undefined, check: HealthCheck, nowMs: number): Failing {
  if (before === undefined) return { atMs: nowMs, sinceMs: nowMs, forMs: 0 };
  return { ...before, atMs: nowMs, forMs: before.forMs + failingForMs(nowMs - before.atMs, check) };
}

function checkedAt({ port, check }: CheckedPort): number {
  return check?.port ?? port;
}
