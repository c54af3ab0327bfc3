/** What is not for everybody's eyes in what the API shows. Pure. */
import type { Release } from '../model.ts';

export const hiddenValue = '[hidden]';

/** Those who only look see which variables there are, not what they hold. */
export function withoutSecrets(release: Release): Release {
  const processes = Object.entries(release.processes).map(([type, process]) => [
    type,
    { ...process, env: hideValues(process.env) },
  ]);
  const { references } = release;
  return {
    ...release,
    env: hideValues(release.env),
    ...(references === undefined ? {} : { references: hideValues(references) }),
    processes: Object.fromEntries(processes),
  };
}

function hideValues(env: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.keys(env).map((name) => [name, hiddenValue]));
}

/** Of a spec that has variables, whatever else it has. */
export function withoutEnv(spec: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(spec).map(([name, value]) => {
      if (!isRecord(value)) return [name, value];
      if (name === 'env' || name === 'references')
        return [name, Object.fromEntries(Object.keys(value).map((variable) => [variable, hiddenValue]))];
      return [name, withoutEnv(value)];
    }),
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
