/** Which requests have done nothing where they have written nothing? Pure. */
import type { Route } from '@flynn/kit/routes';
import { layers } from '../collection/api-layers.ts';
import { generic } from '../generic/api.ts';
import { routing } from '../routes/api.ts';
import { runnerEnv } from '../runner-env/api.ts';

/** As an entry says it: `POST /apps/:app/routes`. */
export function actionOf({ method, path }: Pick<Route, 'method' | 'path'>): string {
  return `${method} ${path}`;
}

/** They say how something is to be, bring what is not used yet, or look. */
const idle: ReadonlySet<string> = new Set(
  [generic.apply, layers.put, routing.reach, runnerEnv.watch].map((route) => actionOf(route)),
);

/**
 * Whoever says how something is to be which is so already. What is written nowhere else was carried out on a host, as a job's stop
 * and a volume's removal are, or handed out, as a backup with all keys is: that is `done`, and there is no other record of it.
 */
export function mayBeIdle(action: string): boolean {
  return action.startsWith('PUT ') || action.startsWith('PATCH ') || idle.has(action);
}
