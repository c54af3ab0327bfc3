/** The controller as one of its own hosts reaches it: through discovery, with the cluster's root key. */
import { createDiscoveryClient } from '@flynn/discovery/client';
import { HttpClient } from '@flynn/kit/http-client';
import { controllerService } from './manifest.ts';
import { type Cluster, gatewayOf } from './settings.ts';

export async function withController<T>(
  cluster: Pick<Cluster, 'subnet' | 'controllerKey'>,
  task: (client: HttpClient) => Promise<T>,
): Promise<T> {
  await using discovery = createDiscoveryClient({ url: `http://${gatewayOf(cluster.subnet)}:1111` });
  const baseUrl = async (): Promise<string> => `http://${(await discovery.resolve(controllerService)).address}`;
  await using client = new HttpClient({
    baseUrl,
    key: cluster.controllerKey,
    name: 'the controller',
    timeoutMs: 30_000,
  });
  return await task(client);
}
