/**
 * May the cluster keep logins of registries? Whoever says no (FLYNN_REGISTRY_LOGINS_KEPT) has them in runners of their own alone:
 * what would put one into the store is refused, and what is there already is told of (findings.ts). Pure.
 */
import { FlynnError } from '@flynn/kit/errors';
import { loginsSchema } from './settings.ts';

const variable = 'FLYNN_REGISTRY_LOGINS';

export type Env = Readonly<Record<string, string>>;
type Settings = Readonly<{ keepsRegistryLogins?: boolean }>;

/** Throws `denied` with what to do instead. What was there before may stay, so that it can be taken away one by one. */
export function checkKeptLogins(
  { keepsRegistryLogins = true }: Settings,
  before: readonly Env[],
  after: readonly Env[],
): void {
  if (keepsRegistryLogins) return;
  const known = new Set(before.flatMap((env) => Object.values(keptLoginsIn(env))));
  const added = after.flatMap((env) => Object.entries(keptLoginsIn(env)).filter(([, login]) => !known.has(login)));
  if (added.length > 0) throw loginsNotKept([...new Set(added.map(([registry]) => registry))]);
}

export function loginsNotKept(registries: readonly string[]): FlynnError {
  return new FlynnError(
    'denied',
    `this cluster keeps no logins of registries (${registries.join(', ')}): a runner of your own has them, as "docker login" writes them on its machine: flynn runner add ID, then FLYNN_REGISTRY_CONFIG; an image is fetched by it with flynn deploy --runner ID`,
  );
}

/** By registry, each as a text that is the same for the same login. */
export function keptLoginsIn(env: Env): Record<string, string> {
  const text = env[variable] ?? '';
  if (text === '') return {};
  try {
    const logins = loginsSchema.parse(JSON.parse(text));
    return Object.fromEntries(Object.entries(logins).map(([name, login]) => [name, JSON.stringify(login)]));
  } catch {
    // What no runner can read may hold one all the same.
    return { [variable]: text };
  }
}

/** Of a release: its own, and those of its processes. */
export function envsOf({ env, processes }: { env: Env; processes: Readonly<Record<string, { env: Env }>> }): Env[] {
  return [env, ...Object.values(processes).map((process) => process.env)];
}
