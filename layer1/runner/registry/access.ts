/** May a runner fetch from a registry, and how, by what it was started with and by what the cluster says? Pure. */
import { isIP } from 'node:net';
import { FlynnError } from '@flynn/kit/errors';
import { allLogins, type Logins } from '../own-logins.ts';
import type { RegistryAccess } from './client.ts';

/** What a runner was started with: whoever started it says it, and nobody in the cluster. */
export type OwnRegistries = Readonly<{
  /** Registries that have no TLS. */
  plain: readonly string[];
  /** With those that it has logins for, all that it fetches from. Undefined, as of the platform's runners: any. */
  only: readonly string[] | undefined;
}>;

/** `denied`: it is none that the runner fetches from, or its own login would go there in the clear because the cluster says so. */
export function accessTo(
  registry: string,
  cluster: Readonly<{ logins: Logins; plain: readonly string[] }>,
  own: OwnRegistries & Readonly<{ logins: Logins }>,
): RegistryAccess {
  const hasOwnLogin = Object.hasOwn(own.logins, registry);
  const isConfined = own.only !== undefined;
  if (own.only !== undefined && !hasOwnLogin && !own.only.includes(registry)) {
    throw new FlynnError(
      'denied',
      `this runner fetches no images from ${registry}, but only from registries that it was started with: name it in FLYNN_RUNNER_REGISTRIES on its machine, or log in there ("docker login ${registry}", FLYNN_REGISTRY_CONFIG), or take another runner`,
    );
  }
  const isOwnPlain = own.plain.includes(registry);
  const isPlain = cluster.plain.includes(registry);
  if (hasOwnLogin && isPlain && !isOwnPlain && !isLoopback(registry)) {
    throw new FlynnError(
      'denied',
      `the runner sends its own login for ${registry} over TLS alone, and only the cluster says that this registry has none: if that is so, start the runner with FLYNN_PLAIN_REGISTRIES=${registry}`,
    );
  }
  return {
    logins: allLogins(cluster.logins, own.logins),
    isPlain: isPlain || (isOwnPlain && (hasOwnLogin || isConfined)),
    isConfined,
  };
}

function isLoopback(registry: string): boolean {
  const host = URL.parse(`http://${registry}`)?.hostname ?? '';
  return host === 'localhost' || (isIP(host) === 4 && host.startsWith('127.'));
}
