/**
 * The controller as one of its own hosts reaches it: through discovery, as that host, with the root key that all of its
 * replicas take.
 */
import { createDiscoveryClient } from '@flynn/discovery/client';
import { partOf } from '@flynn/discovery/parts';
import { readHostIdentity } from '@flynn/host-agent/trust/host-trust';
import { HttpClient } from '@flynn/kit/http-client';
import { controllerService } from './manifest.ts';
import { commonRootKey } from './rotation.ts';
import { type Cluster, gatewayOf } from './settings.ts';

export async function withController<T>(
  { stateDir, cluster }: { stateDir: string; cluster: Pick<Cluster, 'subnet' | 'controllerKey' | 'rootKeyChange'> },
  task: (client: HttpClient) => Promise<T>,
): Promise<T> {
  await using discovery = createDiscoveryClient({ url: `http://${gatewayOf(cluster.subnet)}:1111` });
  await using client = new HttpClient({
    ...partOf(discovery, controllerService, await readHostIdentity(stateDir)),
    key: commonRootKey(cluster),
    name: 'the controller',
    timeoutMs: 30_000,
  });
  return await task(client);
}
