/** Is it up? A reducer over the answers of one check, and the checks themselves. */
import { Agent, request } from 'node:http';
import { Socket, connect } from 'node:net';
import type { HostJob } from '@flynn/scheduler/cell';
import type { HealthCheck, RoleCheck } from '@flynn/scheduler/ports';
import { hasErrno } from '@flynn/kit/errors';
import { healthCheckSchema } from '@flynn/scheduler/ports';

export type Verdict = Readonly<{
  isUp: boolean;
  hasBeenUp: boolean;
  /** Answers in a row that contradict `isUp`. */
  streak: number;
  /** Answers in a row that agree with it. */
  agreed: number;
}>;

export const unknownVerdict: Verdict = { isUp: false, hasBeenUp: false, streak: 0, agreed: 0 };

/** One good answer is enough the first time; after that `threshold` in a row change the verdict either way. */
export function judge(verdict: Verdict, isGood: boolean, threshold: number): Verdict {
  if (isGood === verdict.isUp) return { ...verdict, streak: 0, agreed: verdict.agreed + 1 };
  const streak = verdict.streak + 1;
  const needed = verdict.hasBeenUp ? threshold : 1;
  if (streak < needed) return { ...verdict, streak, agreed: 0 };
  return { isUp: isGood, hasBeenUp: verdict.hasBeenUp || isGood, streak: 0, agreed: 0 };
}

/** Often while people wait for it to come up; the timeouts of a host that is silent keep it from being too often. */
const startingIntervalMs = 100;

/** What is checked on the same beat costs a third of what it costs one by one: the process wakes once for all of it. */
const beatMs = 500;

/** In how many milliseconds to check again; `nowMs` is of a clock that all checks share and nobody sets. */
export function waitMs(verdict: Verdict, check: HealthCheck, nowMs: number): number {
  return verdict.hasBeenUp ? steadyWaitMs(check, nowMs) : startingIntervalMs;
}

/** The same of what nobody waits for. */
export function steadyWaitMs(check: Pick<HealthCheck, 'intervalMs'>, nowMs: number): number {
  if (check.intervalMs < 2 * beatMs) return check.intervalMs;
  return Math.round((nowMs + check.intervalMs) / beatMs) * beatMs - nowMs;
}

const restartAfterMs = 60_000;

/**
 * How long a job that was healthy may fail its check without a break. Jobs that fail together, for a database that is away say,
 * are not to be stopped together: each has up to as long again, by `random` (from 0 to 1).
 */
export function failingLimitMs(check: HealthCheck, random: number): number {
  const ms = check.restartAfterMs ?? restartAfterMs;
  return ms === 0 ? Infinity : ms * (1 + random);
}

/** How long a look that found it failing counts: no longer than looks take, so that a host that stood still blames nobody. */
export function failingForMs(sinceLastLookMs: number, check: HealthCheck): number {
  return Math.min(sinceLastLookMs, check.intervalMs + check.timeoutMs + 2 * beatMs);
}

/** Ports where nothing listens, as a rule. */
const quietPorts = [1, 2] as const;

/**
 * Whether packets come and go: the kernel there answers, were it to refuse, whatever its processes do. If it does not, a check
 * that fails says something of the host's network and nothing of the job. Never throws.
 */
export function isReachable(
  { address, port }: { address: string; port: number },
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port: port === quietPorts[0] ? quietPorts[1] : quietPorts[0] });
    const finish = (answers: boolean) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
      socket.destroy();
      resolve(answers);
    };
    const cancel = () => finish(false);
    const timer = setTimeout(cancel, timeoutMs);
    signal.addEventListener('abort', cancel, { once: true });
    socket.once('connect', () => finish(true));
    socket.once('error', (error) => finish(hasErrno(error, 'ECONNREFUSED', 'ECONNRESET')));
  });
}

export type CheckedPort = { port: number; service: string; check: HealthCheck | undefined };

/** The ports that are announced. Without a check of its own, a TCP port is up when it accepts; a UDP port always. */
export function checkedPortsOf(job: Pick<HostJob, 'template'>): CheckedPort[] {
  return job.template.ports.flatMap(({ port, protocol, service }) => {
    if (service === undefined) return [];
    const check = service.check ?? (protocol === 'tcp' ? healthCheckSchema.parse({ type: 'tcp' }) : undefined);
    return [{ port, service: service.name, check }];
  });
}

export type CheckedRole = { port: number; name: string; check: RoleCheck; goesLast?: true | undefined };

export function rolesOf(job: Pick<HostJob, 'template'>): CheckedRole[] {
  return job.template.ports.flatMap(({ port, roles = [] }) => roles.map((role) => ({ port, ...role })));
}

/** Each name once under which the job may be in discovery, whether it is now or not. */
export function announcedNamesOf(job: Pick<HostJob, 'template'>): string[] {
  const services = checkedPortsOf(job).map(({ service }) => service);
  return [...new Set([...services, ...rolesOf(job).map(({ name }) => name)])];
}

/** Answers what is wrong, or undefined. Never throws. */
export function probe(
  check: RoleCheck,
  announced: { address: string; port: number },
  signal: AbortSignal,
): Promise<string | undefined> {
  const target = targetOf(check, announced);
  return check.type === 'http' ? probeHttp(check, target, signal) : probeTcp(check, target, signal);
}

/** What is looked at need not be what is announced. */
function targetOf({ port }: RoleCheck, announced: { address: string; port: number }): typeof announced {
  return port === undefined ? announced : { ...announced, port };
}

/** So many good answers in a row, and a port is steady. */
const steadyAnswers = 15;
const steadyFactor = 5;

export function isSteady({ isUp, agreed }: Verdict, check: HealthCheck): boolean {
  return check.type === 'tcp' && isUp && agreed >= steadyAnswers;
}

/**
 * Tries a steady port at five times its interval until it does not accept, and answers what is wrong then; undefined when the
 * signal aborts. That a port accepts says little: the kernel does so as long as the process listens, and of its end the engine
 * tells at once. As this is what an idle host does most, it makes no garbage: socket and timers are used again and again.
 */
export function untilRefused(
  check: HealthCheck,
  announced: { address: string; port: number },
  signal: AbortSignal,
): Promise<string | undefined> {
  const { address, port } = targetOf(check, announced);
  return new Promise((resolve) => {
    const socket = new Socket();
    const finish = (problem: string | undefined) => {
      clearInterval(ticks);
      clearTimeout(deadline);
      signal.removeEventListener('abort', cancel);
      socket.destroy();
      resolve(problem);
    };
    const cancel = () => finish(undefined);
    const ticks = setInterval(() => {
      if (socket.connecting) return;
      socket.connect({ host: address, port });
      deadline.refresh();
    }, check.intervalMs * steadyFactor);
    const deadline = setTimeout(() => {
      if (socket.connecting) finish(late(port, check));
    }, check.timeoutMs);
    socket.on('connect', () => socket.destroy());
    socket.on('error', (error) => finish(refused(port, error)));
    signal.addEventListener('abort', cancel, { once: true });
    if (signal.aborted) cancel();
  });
}

function late(port: number, check: RoleCheck): string {
  return `port ${port} did not answer within ${check.timeoutMs} ms`;
}

function refused(port: number, error: Error): string {
  return `nothing accepts connections on port ${port} (${error.message})`;
}

function probeTcp(
  check: RoleCheck,
  { address, port }: { address: string; port: number },
  signal: AbortSignal,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port });
    const finish = (problem: string | undefined) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
      socket.destroy();
      resolve(problem);
    };
    const cancel = () => finish('the check was cancelled');
    const timer = setTimeout(() => finish(late(port, check)), check.timeoutMs);
    signal.addEventListener('abort', cancel, { once: true });
    socket.once('connect', () => finish(undefined));
    socket.once('error', (error) => finish(refused(port, error)));
  });
}

/** A connection each time: that it is accepted is part of the check. */
const connections = new Agent({ keepAlive: false });

function probeHttp(
  check: RoleCheck,
  { address, port }: { address: string; port: number },
  signal: AbortSignal,
): Promise<string | undefined> {
  const what = `GET ${check.path} on port ${port}`;
  return new Promise((resolve) => {
    const finish = (problem: string | undefined) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
      resolve(problem);
      call.destroy();
    };
    const cancel = () => finish('the check was cancelled');
    const timer = setTimeout(() => finish(`${what} did not answer within ${check.timeoutMs} ms`), check.timeoutMs);
    signal.addEventListener('abort', cancel, { once: true });
    const headers = { ...check.headers, ...(check.host === undefined ? {} : { host: check.host }) };
    const call = request({ host: address, port, path: check.path, headers, agent: connections }, (response) => {
      response.resume();
      finish(unwanted(what, check, response.statusCode ?? 0));
    });
    call.on('error', (error) => finish(`${what} failed (${error.message})`));
    call.end();
  });
}

function unwanted(what: string, { status, statusBelow = 500 }: RoleCheck, answered: number): string | undefined {
  if (status !== undefined) return answered === status ? undefined : `${what} answered ${answered}, not ${status}`;
  if (answered < statusBelow) return undefined;
  const isHinted = answered < 500;
  return `${what} answered ${answered}${isHinted ? `: the check wants less than ${statusBelow}, or the status it is given` : ''}`;
}
