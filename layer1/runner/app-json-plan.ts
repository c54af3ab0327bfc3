/** What does an app.json make of a release of its source? Pure but for the random bytes it is given. */
import { isDeepStrictEqual } from 'node:util';
import type { AppJson, Healthcheck } from '@flynn/controller/apps/app-json';
import { isWebType, serviceNameOf } from '@flynn/controller/processes/compile';
import type { Process } from '@flynn/controller/processes/process';
import { FlynnError } from '@flynn/kit/errors';

/**
 * The variables of an app that was never deployed: what is set stays, what is not is as app.json says. Later nothing is
 * added: what somebody unset stays so. Throws `invalid` naming what has to be set first.
 */
export function firstEnv(
  { env }: Pick<AppJson, 'env'>,
  before: Readonly<Record<string, string>>,
  randomSecret: () => string,
): Record<string, string> {
  const missing = Object.entries(env).filter(([name, { is }]) => is === 'required' && before[name] === undefined);
  if (missing.length > 0) {
    const names = missing.map(([name]) => name);
    throw new FlynnError(
      'invalid',
      `app.json requires ${names.join(', ')}: set it with "flynn env set ${names.map((name) => `${name}=…`).join(' ')}" and push again`,
    );
  }
  const added = Object.entries(env).flatMap(([name, variable]): [string, string][] => {
    if (before[name] !== undefined) return [];
    if (variable.is === 'value') return [[name, variable.value]];
    return variable.is === 'secret' ? [[name, randomSecret()]] : [];
  });
  return { ...Object.fromEntries(added), ...before };
}

/** Which variables the first release does not have though app.json says how they are made: by commands, which are not run. */
export function unmadeNotes({ env }: Pick<AppJson, 'env'>, made: Readonly<Record<string, string>>): string[] {
  return Object.entries(env).flatMap(([name, variable]) => {
    if (variable.is !== 'optional' || variable.generator === undefined || made[name] !== undefined) return [];
    return `app.json: ${name} is not set: "${variable.generator}" is not run, as only the generator "secret" is known; see "flynn env set ${name}=…"`;
  });
}

type Check = NonNullable<NonNullable<Process['ports'][number]['service']>['check']>;

/** The first check of a type that looks from outside, as that of its service. A port it names is where it looks, and no more. */
export function withHealthchecks(
  processes: Readonly<Record<string, Process>>,
  healthchecks: AppJson['healthchecks'],
  appName: string,
): { processes: Record<string, Process>; notes: string[] } {
  const notes: string[] = [];
  const entries = Object.entries(processes).map(([type, process]): [string, Process] => {
    const wanted = healthchecks[type] ?? [];
    for (const check of wanted) notes.push(...leftOut(check).map((what) => `app.json: a check of ${type} ${what}`));
    const usable = wanted.filter(isUsable);
    const [check] = usable.toSorted((a, b) => order.indexOf(a.type) - order.indexOf(b.type));
    if (check === undefined) return [type, process];
    const [port, ...others] = process.ports;
    if (port === undefined && check.port === undefined) {
      notes.push(`app.json: ${type} listens on no port, so its check is left out`);
      return [type, process];
    }
    const name = port?.service?.name ?? serviceNameOf(appName, type);
    const first = port ?? { protocol: 'tcp' as const, port: check.port ?? 0 };
    const service = { name, check: { ...checkOf(check), ...restartOf(check, usable) } };
    return [type, { ...process, ports: [{ ...first, service }, ...others] }];
  });
  for (const type of Object.keys(healthchecks)) {
    if (processes[type] === undefined) notes.push(`app.json: there is no process type ${type} to check`);
  }
  return { processes: Object.fromEntries(entries), notes };
}

/**
 * The processes of before without the checks that app.json gave them: what it says no more goes, what somebody set otherwise since
 * stays. `fresh`: what the build of before named. Versions before put the port of a check in the place of the type's own: it goes
 * back, unless app.json (`now`) still says it.
 */
export function withoutHealthchecks(
  processes: Readonly<Record<string, Process>>,
  before: { fresh: Readonly<Record<string, Process>>; healthchecks: AppJson['healthchecks'] },
  { now, appName }: { now: AppJson['healthchecks']; appName: string },
): Record<string, Process> {
  const given = withHealthchecks(before.fresh, before.healthchecks, appName).processes;
  const entries = Object.entries(processes).map(([type, process]): [string, Process] => {
    const [first, ...others] = process.ports;
    const [asGiven] = given[type]?.ports ?? [];
    const check = first?.service?.check;
    const wanted = asGiven?.service?.check;
    if (first === undefined || check === undefined || wanted === undefined) return [type, process];
    const { port, status: _status, host: _host, headers: _headers, restartAfterMs: _limit, ...asBefore } = wanted;
    const isOld = isDeepStrictEqual(known(check), asBefore);
    if (!isOld && !isDeepStrictEqual(known(check), wanted)) return [type, process];
    const [own] = before.fresh[type]?.ports ?? [];
    if (own === undefined && first.port === port) return [type, { ...process, ports: others }];
    const isTaken = isOld && first.port === port && !(now[type] ?? []).some((one) => one.port === port);
    return [
      type,
      {
        ...process,
        ports: [unchecked(type, isTaken && own !== undefined ? { ...first, port: own.port } : first), ...others],
      },
    ];
  });
  return Object.fromEntries(entries);

  function unchecked(type: string, { service, ...port }: Process['ports'][number]): Process['ports'][number] {
    const name = service?.name;
    // What a type that gets requests is called anyway need not be said.
    if (name === undefined || (isWebType(type) && name === serviceNameOf(appName, type))) return port;
    return { ...port, service: { name } };
  }
}

/** Without what is said to be nothing. */
function known(check: Check): object {
  return Object.fromEntries(Object.entries(check).filter(([, value]) => value !== undefined));
}

const order: readonly Healthcheck['type'][] = ['startup', 'readiness', 'liveness'];

function isUsable({ command, warn }: Healthcheck): boolean {
  return command === undefined && warn !== true;
}

/** What others do with a check and we do not, for who wrote it. */
function leftOut({ command, warn, scheme, content }: Healthcheck): string[] {
  if (command !== undefined) return ['that runs a command is left out'];
  if (warn === true) return ['that only warns is left out'];
  return [
    ...(scheme === 'https' ? ['wants HTTPS: whether its port accepts connections is all that is looked at'] : []),
    ...(content === undefined ? [] : ['wants some content: the status of the answer is all that is looked at']),
  ];
}

function paceOf({ interval, wait, timeout }: Healthcheck): { everyMs: number; timeoutMs: number } {
  return {
    everyMs: Math.max(100, Math.round((wait ?? interval) * 1_000)),
    timeoutMs: Math.max(100, Math.round(timeout * 1_000)),
  };
}

/** When one that hangs is started again: as it says, or once all attempts of a liveness check would have failed. */
function restartOf(check: Healthcheck, all: readonly Healthcheck[]): { restartAfterMs?: number } {
  const liveness = all.find(({ type }) => type === 'liveness');
  const seconds = check.restartAfter ?? liveness?.restartAfter;
  if (seconds !== undefined) return { restartAfterMs: Math.round(seconds * 1_000) };
  if (liveness === undefined) return {};
  const { everyMs, timeoutMs } = paceOf(liveness);
  return { restartAfterMs: Math.max(10_000, liveness.attempts * (everyMs + timeoutMs)) };
}

/** So many attempts may fail at the start; later as many in a row make it unhealthy. */
function checkOf(asked: Healthcheck): Check {
  const { port, attempts, initialDelay } = asked;
  const { everyMs, timeoutMs } = paceOf(asked);
  const startMs = Math.round(initialDelay * 1_000) + attempts * (everyMs + timeoutMs);
  return {
    ...requestOf(asked),
    ...(port === undefined ? {} : { port }),
    intervalMs: everyMs,
    timeoutMs,
    threshold: Math.min(attempts, 10),
    startTimeoutMs: Math.max(10_000, startMs),
  };
}

function requestOf({ path, status, scheme, httpHeaders = [] }: Healthcheck) {
  if (path === undefined || scheme === 'https') return { type: 'tcp' as const, path: '/' };
  const isHost = ({ name }: { name: string }) => name.toLowerCase() === 'host';
  const host = httpHeaders.find(isHost)?.value;
  const headers = httpHeaders
    .filter((header) => !isHost(header))
    .map(({ name, value }): [string, string] => [name, value]);
  return {
    type: 'http' as const,
    path,
    ...(status === undefined ? {} : { status }),
    ...(host === undefined ? {} : { host }),
    ...(headers.length === 0 ? {} : { headers: Object.fromEntries(headers) }),
  };
}

/** How many of each type to begin with: of those the release before did not have. */
export function firstCounts(
  { formation }: Pick<AppJson, 'formation'>,
  types: { now: readonly string[]; before: readonly string[] },
): Record<string, number> {
  return Object.fromEntries(
    Object.entries(formation).filter(([type]) => types.now.includes(type) && !types.before.includes(type)),
  );
}
