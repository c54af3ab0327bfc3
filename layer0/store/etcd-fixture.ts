/** Clients of a real etcd for the tests of the driver: one behind proxies that cut and freeze, one past them. */
import { silentLogger } from '@flynn/kit/log';
import type { OpenedStore } from './conformance.ts';
import type { EtcdTls } from './etcd-members.ts';
import { connectEtcd } from './etcd.ts';
import { startTcpProxy } from './tcp-proxy.ts';
import type { TcpProxy } from './tcp-proxy.ts';

export type ProxiedStore = OpenedStore & { readonly proxies: readonly TcpProxy[] };

export type ProxiedOptions = {
  /** Of `store`; each gets its proxy. */
  endpoints: readonly string[];
  /** Of `peer`; default: the same. */
  peerEndpoints?: readonly string[];
  tls?: EtcdTls | undefined;
  timeoutMs?: number;
};

/** Empties the store first. */
export async function openProxied(options: ProxiedOptions): Promise<ProxiedStore> {
  const common = { log: silentLogger(), ...(options.tls === undefined ? {} : { tls: options.tls }) };
  const peer = connectEtcd({ endpoints: options.peerEndpoints ?? options.endpoints, ...common });
  await peer.transact({ then: [{ deletePrefix: '/' }] });
  const proxies = await Promise.all(options.endpoints.map((endpoint) => startTcpProxy(Number(new URL(endpoint).port))));
  const scheme = options.tls === undefined ? 'http' : 'https';
  const store = connectEtcd({
    endpoints: proxies.map(({ port }) => `${scheme}://127.0.0.1:${port}`),
    timeoutMs: options.timeoutMs ?? 5_000,
    ...common,
  });
  return {
    store,
    peer,
    proxies,
    disconnect: async () => {
      for (const proxy of proxies) proxy.cut();
      return async () => proxies.forEach((proxy) => proxy.restore());
    },
    [Symbol.asyncDispose]: async () => {
      await store.close();
      await peer.close();
      for (const proxy of proxies) await proxy[Symbol.asyncDispose]();
    },
  };
}
