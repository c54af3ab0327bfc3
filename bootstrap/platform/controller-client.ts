/**
 * The controller as one of its own hosts reaches it: through discovery, as that host, with the root key that all of its
 * replicas take.
 */
import { apps } from '@flynn/controller/api';
import type { Instance } from '@flynn/discovery/api';
import { type DiscoveryClient, createDiscoveryClient } from '@flynn/discovery/client';
import { asPart, partUrl } from '@flynn/discovery/parts';
import { readHostIdentity } from '@flynn/host-agent/trust/host-trust';
import { ifFound } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import type { LiveIdentity } from '@flynn/kit/identity';
import { controllerApp, controllerService } from './manifest.ts';
import { commonRootKey } from '../rotation/rotation.ts';
import { type Cluster, gatewayOf } from '../settings.ts';

const askMs = 10_000;

type Host = { stateDir: string; cluster: Pick<Cluster, 'subnet' | 'controllerKey' | 'rootKeyChange'> };

/** By which jobs of the first controller are known: which of its processes it is. */
export const firstMeta = 'flynn.bootstrap';

export async function withController<T>(
  { stateDir, cluster }: Host,
  task: (client: HttpClient) => Promise<T>,
): Promise<T> {
  await using discovery = createDiscoveryClient({ url: `http://${gatewayOf(cluster.subnet)}:1111` });
  const identity = await readHostIdentity(stateDir);
  await using client = new HttpClient({
    baseUrl: () => controllerUrl(discovery, identity),
    ...asPart(controllerService, identity),
    key: commonRootKey(cluster),
    name: 'the controller',
    timeoutMs: 30_000,
  });
  return await task(client);
}

/** The first one where it runs: beside it there may be some that are not let into the store any more. */
export async function controllerUrl(
  discovery: Pick<DiscoveryClient, 'resolve' | 'instances'>,
  identity: LiveIdentity | undefined,
): Promise<string> {
  const any = await discovery.resolve(controllerService);
  const [first] = await discovery.instances(controllerService, { where: { [firstMeta]: 'web' } });
  return partUrl(first ?? any, identity);
}

/** One read of this instance that it has to ask the store for. Throws what came of that. */
export async function askController({ stateDir, cluster }: Host, instance: Instance): Promise<void> {
  const identity = await readHostIdentity(stateDir);
  await using client = new HttpClient({
    baseUrl: partUrl(instance, identity),
    ...asPart(controllerService, identity),
    key: commonRootKey(cluster),
    name: 'the controller',
    timeoutMs: askMs,
  });
  await ifFound(client.call(apps.get, { params: { app: controllerApp } }));
}
