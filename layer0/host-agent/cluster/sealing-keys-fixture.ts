/** Hosts of one cluster that tell one another what the store is sealed under, over real connections, for tests. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { roleGate } from '@flynn/kit/http-gate';
import { startServer } from '@flynn/kit/http-server';
import { RenewedIdentity, hostRole } from '@flynn/kit/identity';
import { silentLogger } from '@flynn/kit/log';
import { type Credentials, createAuthority, issueCertificate } from '@flynn/kit/tls';
import { readRing } from '@flynn/store/sealing/ring';
import type { Store } from '@flynn/store/store';
import type { AgentPlace } from '../agent-client.ts';
import { agentRules } from '../trust/agent-rules.ts';
import { SealingKeys, addSealingKeys, readSealingKeys, sealingKeyHandlers } from './sealing-keys.ts';

export const clusterKey = 'the-key-of-a-cluster';

export type SealedHost = Readonly<{
  id: string;
  stateDir: string;
  place: AgentPlace;
  keys: SealingKeys;
  /** One look of its agent, unless the host is away. */
  look: () => Promise<void>;
  onDisk: () => Promise<string[]>;
}> & { isAway: boolean };

export type SealedHosts = AsyncDisposable & {
  authority: Credentials;
  hosts: SealedHost[];
  /** Beside those there are; `keys` are what it was told when it joined. */
  add: (id: string, keys: readonly string[]) => Promise<SealedHost>;
};

export async function sealedHosts(store: Store): Promise<SealedHosts> {
  const authority = await createAuthority('flynn test');
  const hosts: SealedHost[] = [];
  const closing = new AsyncDisposableStack();
  return {
    authority,
    hosts,
    async add(id, keys) {
      const stateDir = await mkdtemp(join(tmpdir(), 'flynn-sealing-keys-'));
      closing.defer(() => rm(stateDir, { recursive: true, force: true }));
      await addSealingKeys(stateDir, keys);
      const role = hostRole(id);
      const issued = await issueCertificate(authority, { name: id, role, addresses: ['127.0.0.1'] });
      const identity = new RenewedIdentity({ trusted: authority.certificate, ...issued });
      const log = silentLogger();
      const gate = roleGate(
        clusterKey,
        agentRules(() => []),
      );
      const handlers = sealingKeyHandlers(stateDir);
      const server = await startServer({ name: id, handlers, gate, host: '127.0.0.1', port: 0, mutual: identity, log });
      closing.use(server);
      const sealingKeys = new SealingKeys({
        stateDir,
        readRing: async (signal) => (await readRing(store, { signal }))?.ring,
        peers: () => hosts.filter((other) => other !== host && !other.isAway).map(({ place }) => place),
        access: { key: clusterKey, identity },
        log,
      });
      const host: SealedHost = {
        id,
        stateDir,
        place: { id, address: '127.0.0.1', apiPort: server.port, mutual: { withoutIdentity: 0 } },
        keys: sealingKeys,
        look: async () => {
          if (!host.isAway) await sealingKeys.look(AbortSignal.timeout(60_000));
        },
        onDisk: () => readSealingKeys(stateDir),
        isAway: false,
      };
      hosts.push(host);
      return host;
    },
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  };
}
