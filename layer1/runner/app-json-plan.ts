/** What does an app.json make of a release of its source? Pure but for the random bytes it is given. */
import type { AppJson, Healthcheck } from '@flynn/controller/app-json';
import { serviceNameOf } from '@flynn/controller/compile';
import type { Process } from '@flynn/controller/model';
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

/** The first check of a type that looks from outside, as the check of its service. */
export function withHealthchecks(
  processes: Readonly<Record<string, Process>>,
  healthchecks: AppJson['healthchecks'],
  appName: string,
): { processes: Record<string, Process>; notes: string[] } {
  const notes: string[] = [];
  const entries = Object.entries(processes).map(([type, process]): [string, Process] => {
    const wanted = healthchecks[type] ?? [];
    const usable = wanted.filter(({ command }) => command === undefined);
    if (usable.length < wanted.length) notes.push(`app.json: a check of ${type} that runs a command is left out`);
    const [check] = usable.toSorted((a, b) => order.indexOf(a.type) - order.indexOf(b.type));
    if (check === undefined) return [type, process];
    const [port, ...others] = process.ports;
    if (port === undefined && check.port === undefined) {
      notes.push(`app.json: ${type} listens on no port, so its check is left out`);
      return [type, process];
    }
    const name = port?.service?.name ?? serviceNameOf(appName, type);
    const first = { protocol: 'tcp' as const, ...port, port: check.port ?? port?.port ?? 0 };
    return [type, { ...process, ports: [{ ...first, service: { name, check: checkOf(check) } }, ...others] }];
  });
  for (const type of Object.keys(healthchecks)) {
    if (processes[type] === undefined) notes.push(`app.json: there is no process type ${type} to check`);
  }
  return { processes: Object.fromEntries(entries), notes };
}

const order: readonly Healthcheck['type'][] = ['startup', 'readiness', 'liveness'];

/** So many attempts may fail at the start; later as many in a row make it unhealthy. */
function checkOf({ path, attempts, interval, wait, timeout, initialDelay }: Healthcheck) {
  const everyMs = Math.max(100, Math.round((wait ?? interval) * 1_000));
  const timeoutMs = Math.max(100, Math.round(timeout * 1_000));
  const startMs = Math.round(initialDelay * 1_000) + attempts * (everyMs + timeoutMs);
  return {
    ...(path === undefined ? { type: 'tcp' as const, path: '/' } : { type: 'http' as const, path }),
    intervalMs: everyMs,
    timeoutMs,
    threshold: Math.min(attempts, 10),
    startTimeoutMs: Math.max(10_000, startMs),
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
