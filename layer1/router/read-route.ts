/** A route as another version may have written it. */
import { routeSchema } from '@flynn/controller/model';
import type { Route } from '@flynn/controller/model';
import { z } from 'zod';

/**
 * One that this version cannot read must not cost all the others, nor a setting it does not understand the route. `problem` is what
 * is wrong with what was written, if anything is; `route` is what can be made of it.
 */
export function readRoute(data: unknown): { route: Route | undefined; problem?: string } {
  const parsed = routeSchema.safeParse(data);
  if (parsed.success) return { route: parsed.data };
  const rest = withoutSettings(data, parsed.error);
  const route = rest === undefined ? undefined : routeSchema.safeParse(rest).data;
  return { route, problem: z.prettifyError(parsed.error) };
}

/** Of who may come in: nobody does. */
const closed = { users: {}, allow: [] };

/**
 * Without those that cannot be read: they are as if nobody had set them, but that a route which does not let in everybody does not
 * begin to. Undefined if something else is wrong.
 */
function withoutSettings(data: unknown, error: z.ZodError): unknown {
  const copy: unknown = structuredClone(data);
  for (const { path } of error.issues) {
    const [group, setting] = path;
    if ((group !== 'http' && group !== 'tcp') || !isRecord(copy)) return undefined;
    const settings = copy[group];
    if (isRecord(settings) && setting === 'access') settings[setting] = closed;
    else if (isRecord(settings) && typeof setting === 'string') delete settings[setting];
    else delete copy[group];
  }
  return copy;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
