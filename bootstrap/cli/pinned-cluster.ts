/**
 * The cluster as the flynn command is to know it: over TLS, once the router shows a certificate for the controller. With the
 * new root key while it is made anew: it is written once all controllers take it.
 */
import type { Cluster as KnownCluster } from '@flynn/cli/clusters/clusters';
import { hostAuthoritiesOf } from '@flynn/host-agent/trust/authorities';
import { certificatesIn, fingerprintOf } from '@flynn/kit/certificate';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { shownChain } from '@flynn/kit/shown-chain';
import { type Cluster } from '../settings.ts';
import { controllerUrlOf, gitUrlOf, httpsPortOf, secureControllerUrlOf } from '../domain/urls.ts';

/** As it is reached while nobody shows a certificate for it that this machine could check. */
function openCluster(cluster: Cluster): KnownCluster {
  return {
    name: cluster.name,
    controllerUrl: controllerUrlOf(cluster),
    key: cluster.controllerKey,
    gitUrl: gitUrlOf(cluster),
    domain: cluster.domain,
    httpPort: cluster.httpPort,
  };
}

function pinnedCluster(cluster: Cluster): KnownCluster {
  return { ...openCluster(cluster), controllerUrl: secureControllerUrlOf(cluster), ca: hostAuthoritiesOf(cluster) };
}

/** With a certificate that people brought, of an authority that this machine trusts anyway. */
function trustedCluster(cluster: Cluster): KnownCluster {
  return { ...openCluster(cluster), controllerUrl: secureControllerUrlOf(cluster), ca: undefined };
}

/** By what the router of any of the hosts shows, default this one's, as untilAnswers: in clear if none shows either in time. */
export async function knownCluster(
  cluster: Cluster,
  deadlineMs: number,
  hosts: readonly string[] = [],
): Promise<KnownCluster> {
  const { hostname } = new URL(controllerUrlOf(cluster));
  const wanted = new Set(certificatesIn(hostAuthoritiesOf(cluster)).map(fingerprintOf));
  const servers = hosts.length === 0 ? ['127.0.0.1'] : hosts;
  const limited = AbortSignal.timeout(deadlineMs);
  const shownBy = async (host: string): Promise<KnownCluster> => {
    const server = { host, port: httpsPortOf(cluster), name: hostname };
    const { chain, isTrusted } = await shownChain(server, limited);
    const authority = chain.at(-1);
    if (authority !== undefined && wanted.has(fingerprintOf(authority.toString()))) return pinnedCluster(cluster);
    if (isTrusted) return trustedCluster(cluster);
    throw new FlynnError('unavailable', 'it shows another certificate');
  };
  const shown = (): Promise<KnownCluster> => Promise.any(servers.map(shownBy));
  try {
    return await waitFor(shown, { what: 'the certificate of the controller', deadlineMs, intervalMs: 250 });
  } catch (error) {
    if (hasCode(error, 'timeout')) return openCluster(cluster);
    throw error;
  }
}
