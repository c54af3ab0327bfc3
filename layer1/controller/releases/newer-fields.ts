/** What does a controller of the version before get of a body that has fields it does not know? For those who send it. */
import { hasCode } from '@flynn/kit/errors';

/** Of a release: how its checks look, what it reaches, what it runs after each deployment, and what its maker saw. */
const ofRelease = [
  /^basis$/,
  /^links(?:\.|$)/,
  /^scripts\.postdeployEach$/,
  /^processes\.[^.]+\.ports\.\d+\.service\.check\.(?:port|host|headers|statusBelow)(?:\.|$)/,
];

/**
 * `send` with `body`. A controller that refuses fields of it by their names is asked again without these, if they are of those that
 * another version can do without.
 */
export async function sendRelease<Body extends object, T>(body: Body, send: (body: Body) => Promise<T>): Promise<T> {
  try {
    return await send(body);
  } catch (error) {
    const unknown: unknown = hasCode(error, 'invalid') ? error.detail['unknown'] : undefined;
    if (!Array.isArray(unknown) || unknown.length === 0) throw error;
    const paths = unknown.map(String);
    if (!paths.every((path) => ofRelease.some((known) => known.test(path)))) throw error;
    const less = structuredClone(body);
    for (const path of paths) remove(less, path.split('.'));
    return send(less);
  }
}

function remove(from: unknown, [name = '', ...rest]: readonly string[]): void {
  if (typeof from !== 'object' || from === null) return;
  if (rest.length === 0) Reflect.deleteProperty(from, name);
  else remove(Reflect.get(from, name), rest);
}
