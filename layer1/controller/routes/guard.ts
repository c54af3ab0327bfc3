/**
 * A route that does not let in everybody is stored, and told to routers, as if it were in maintenance: a router or a controller
 * of a version before, which does not know who may come in, lets nobody in, but for addresses that need no password. Pure.
 *
 * INVARIANT. What leaves `guarded` has a guard exactly if it has `access` and no maintenance of its own.
 */
import type { HttpSettings } from './settings.ts';

/** As people set it: without what is there for others. */
export function unguarded(http: HttpSettings): HttpSettings {
  if (http.maintenance?.isGuard !== true || http.access === undefined) return http;
  const { maintenance: _guard, ...rest } = http;
  return rest;
}

/** As it is stored. */
export function guarded(http: HttpSettings): HttpSettings {
  const plain = unguarded(http);
  const { access, maintenance } = plain;
  if (access === undefined || maintenance !== undefined) return plain;
  const needsPassword = Object.keys(access.users).length > 0 && access.needs === 'all';
  return { ...plain, maintenance: { allow: needsPassword ? [] : access.allow, isGuard: true } };
}

/** As lists and the web page have it: who may come in, and nothing of what they know. */
export function shownHttp(http: HttpSettings): HttpSettings {
  const plain = unguarded(http);
  if (plain.access === undefined) return plain;
  const users = Object.fromEntries(Object.keys(plain.access.users).map((name) => [name, {}]));
  return { ...plain, access: { ...plain.access, users } };
}

/** The same of what a file has, at any depth. */
export function withoutHashes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutHashes);
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      name === 'access' && isRecord(inner) && isRecord(inner['users'])
        ? { ...inner, users: Object.fromEntries(Object.keys(inner['users']).map((user) => [user, {}])) }
        : withoutHashes(inner),
    ]),
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
