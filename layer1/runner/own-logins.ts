/** Logins for registries that this runner holds itself, in a file on its machine: nobody else has them. */
import { FlynnError } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import type { Login } from './registry/client.ts';
import { loginsIn } from './registry/docker-config.ts';

export type Logins = Readonly<Record<string, Login>>;

/** As the file has them at the moment: who logs in anew on the machine need not start the runner anew. */
export async function readOwnLogins(file: string | undefined): Promise<Logins> {
  if (file === undefined) return {};
  const text = await readTextFile(file);
  if (text === undefined) {
    throw new FlynnError(
      'invalid',
      `FLYNN_REGISTRY_CONFIG names ${file}, which is not there: "docker login REGISTRY" writes such a file, ~/.docker/config.json unless DOCKER_CONFIG says otherwise`,
    );
  }
  return loginsIn(text, file);
}

/** What a runner holds counts more than what the cluster keeps for all of them. */
export function allLogins(kept: Logins, own: Logins): Logins {
  const marked = Object.entries(own).map(([registry, login]) => [registry, { ...login, isOwn: true }] as const);
  return { ...kept, ...Object.fromEntries(marked) };
}
