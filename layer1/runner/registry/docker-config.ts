/** What logins does a `config.json` of Docker hold? As "docker login" writes it where no credential helper keeps them. Pure. */
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import type { Login } from './client.ts';

const entrySchema = z.object({
  /** Base64 of `name:password`. */
  auth: z.string().optional(),
  username: z.string().optional(),
  password: z.string().optional(),
  identitytoken: z.string().optional(),
  registrytoken: z.string().optional(),
});
type Entry = z.output<typeof entrySchema>;

const configSchema = z.object({
  auths: z.record(z.string(), entrySchema).default({}),
  credsStore: z.string().optional(),
  credHelpers: z.record(z.string(), z.string()).default({}),
});

/**
 * By registry, as references name it. `invalid` for what is no such file, and for logins that it does not hold itself; no message
 * has anything of a password.
 */
export function loginsIn(text: string, file: string): Record<string, Login> {
  const { auths, credsStore, credHelpers } = parse(text, file);
  const helpers = [...(credsStore === undefined ? [] : [credsStore]), ...Object.values(credHelpers)];
  const helper = helpers.find((name) => name !== '');
  if (helper !== undefined) {
    throw new FlynnError(
      'invalid',
      `${file} leaves logins to the credential helper "${helper}", which a runner does not run: write a file that holds them, with DOCKER_CONFIG=DIR docker login REGISTRY, where DIR is an empty folder`,
    );
  }
  return Object.fromEntries(
    Object.entries(auths).map(([place, entry]): [string, Login] => [
      registryOf(place, file),
      loginOf(place, entry, file),
    ]),
  );
}

function parse(text: string, file: string): z.output<typeof configSchema> {
  try {
    return configSchema.parse(JSON.parse(text));
  } catch {
    // What it holds is secret.
    throw new FlynnError('invalid', `${file} is no config.json as "docker login" writes it: log in anew`);
  }
}

/** Docker writes a host, with a port where there is one, or for the one it takes for granted an address. */
function registryOf(place: string, file: string): string {
  const url = URL.parse(place.includes('://') ? place : `https://${place}`);
  if (url !== null && url.host !== '' && (place.includes('://') || url.pathname === '/')) return url.host;
  throw new FlynnError(
    'invalid',
    `${file} has a login for "${place}", which is no registry: logins are by host, and perhaps port`,
  );
}

function loginOf(place: string, entry: Entry, file: string): Login {
  const { auth = '', username, password } = entry;
  if (username !== undefined && password !== undefined) return { username, password };
  const text = Buffer.from(auth, 'base64').toString();
  const colon = text.indexOf(':');
  if (colon > 0 && entry.identitytoken === undefined) {
    return { username: text.slice(0, colon), password: text.slice(colon + 1) };
  }
  const what = entry.identitytoken !== undefined || entry.registrytoken !== undefined ? 'a token' : 'nothing';
  throw new FlynnError(
    'invalid',
    `${file} has ${what} for ${place} where a runner needs a name and a password: docker login ${place} -u NAME, with a password or an access token of that name`,
  );
}
