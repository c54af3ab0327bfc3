/** The cluster as the flynn command is to know it: over TLS, pinned to the cluster's authority, once the router shows that. */
import type { Cluster as KnownCluster } from '@flynn/cli/clusters';
import { fingerprintOf } from '@flynn/kit/certificate';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { shownChain } from '@flynn/kit/shown-chain';
import { type Cluster, controllerUrlOf, gitUrlOf, httpsPortOf, secureControllerUrlOf } from './settings.ts';

/** As it is reached while nobody shows a certificate for it, or somebody else's. */
export function openCluster(cluster: Cluster): KnownCluster {
  return {
    name: cluster.name,
    controllerUrl: controllerUrlOf(cluster),
    key: cluster.controllerKey,
    gitUrl: gitUrlOf(cluster),
    domain: cluster.domain,
    httpPort: cluster.httpPort,
  };
}

export function pinnedCluster(cluster: Cluster): KnownCluster {
  return { ...openCluster(cluster), controllerUrl: secureControllerUrlOf(cluster), ca: cluster.authority.certificate };
}

/** At the router of the host, default this one, as untilAnswers. False if it shows none of the cluster's authority in that time. */
export async function untilPinned(cluster: Cluster, deadlineMs: number, host = '127.0.0.1'): Promise<boolean> {
  const { hostname } = new URL(controllerUrlOf(cluster));
  const wanted = fingerprintOf(cluster.authority.certificate);
  const server = { host, port: httpsPortOf(cluster), name: hostname };
  const limited = AbortSignal.timeout(deadlineMs);
  const isShown = async (): Promise<boolean> => {
    const { chain } = await shownChain(server, limited);
    const authority = chain.at(-1);
    if (authority !== undefined && fingerprintOf(authority.toString()) === wanted) return true;
    throw new FlynnError('unavailable', 'it shows another certificate');
  };
  try {
    return await waitFor(isShown, { what: 'the certificate of the controller', deadlineMs, intervalMs: 250 });
  } catch (error) {
    if (hasCode(error, 'timeout')) return false;
    throw error;
  }
}
