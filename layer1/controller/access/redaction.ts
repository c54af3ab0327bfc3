/** What is not for everybody's eyes in what the API shows. Pure. */
import type { Release } from '../model.ts';

export const hiddenValue = '[hidden]';

/** Those who only look see which variables there are, not what they hold. */
export function withoutSecrets(release: Release): Release {
  const processes = Object.entries(release.processes).map(([type, process]) => [
    type,
    { ...process, env: hideValues(process.env) },
  ]);
  return { ...release, env: hideValues(release.env), processes: Object.fromEntries(processes) };
}

function hideValues(env: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.keys(env).map((name) => [name, hiddenValue]));
}
