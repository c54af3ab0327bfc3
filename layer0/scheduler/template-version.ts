/** Which version is a template? The same for the same content, in whatever order it was written down. */
import { createHash } from 'node:crypto';
import type { JobTemplate } from './job-template.ts';

export function versionOf(template: JobTemplate): string {
  return createHash('sha256').update(canonical(template)).digest('hex').slice(0, 16);
}

/** JSON with sorted names: the order in which variables were set changes nothing. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_name, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
