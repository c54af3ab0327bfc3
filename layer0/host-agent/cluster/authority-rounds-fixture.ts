/** Hosts of one cluster whose authorities are made anew, with their agents' doors, for tests. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { roleGate } from '@flynn/kit/http-gate';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import type { Credentials } from '@flynn/kit/tls';
import type { Store } from '@flynn/store/store';
import type { AgentPlace } from '../agent-client.ts';
import { agentRules } from '../trust/agent-rules.ts';
import type { AuthoritySettings } from '../trust/authorities.ts';
import type { HostTrust } from '../trust/host-trust.ts';
import { trustFixture } from '../trust/trust-fixture.ts';
import { AuthorityRounds, authorityHandlers, readNamed } from './authority-rounds.ts';

export const clusterKey = 'the-key-of-a-cluster';

export type RoundHost = Readonly<{
  stateDir: string;
  trust: HostTrust;
  place: AgentPlace;
  rounds: AuthorityRounds;
  /** One look of its agent. */
  look: () => Promise<void>;
  /** As bootstrap writes it, both files. */
  tell: (settings: AuthoritySettings) => Promise<void>;
  /** As the two files have it. */
  onDisk: () => Promise<{ cluster: unknown; settings: unknown }>;
}> & {
  isAway: boolean;
  /** Whether members of etcd take it for one of theirs. */
  hasStore: boolean;
  /** Its member of etcd, or a job, is not there yet. */
  isBusy: boolean;
  followedUp: number;
};

export type RoundHosts = AsyncDisposable & { add: (id: string) => Promise<RoundHost> };

export async function roundHosts(store: Store, authority: Credentials): Promise<RoundHosts> {
  const hosts: RoundHost[] = [];
  const closing = new AsyncDisposableStack();
  const log = silentLogger();
  return {
    async add(id) {
      const fixture = closing.use(await trustFixture({ hostId: id, authority }));
      // TLS has the machine's clock.
      fixture.day = (Date.now() - fixture.now()) / (24 * 3_600_000);
      const { stateDir } = fixture;
      const clusterPath = join(stateDir, 'cluster.json');
      const tell = async (settings: AuthoritySettings): Promise<void> => {
        await fixture.tell(settings);
        await writeFile(clusterPath, JSON.stringify({ name: 'flynn', hostId: id, ...settings }));
      };
      await tell({ authority });
      const trust = await fixture.open();
      const gate = roleGate(
        clusterKey,
        agentRules(() => []),
      );
      const handlers = authorityHandlers(stateDir);
      const door = { handlers, gate, host: '127.0.0.1', port: 0, mutual: trust.identity, log };
      const server = closing.use(await startServer({ name: id, ...door }));
      const rounds = new AuthorityRounds({
        stateDir,
        trust,
        async readNamed(signal) {
          if (!host.hasStore) throw new FlynnError('unauthenticated', 'etcd’s certificate is of another authority');
          return await readNamed(store, signal);
        },
        async followUp() {
          host.followedUp += 1;
          if (host.isBusy) throw new FlynnError('unavailable', 'its member is about to start');
        },
        peers: () => hosts.filter((other) => other !== host && !other.isAway).map(({ place }) => place),
        access: { key: clusterKey, identity: trust.identity },
        log,
      });
      const host: RoundHost = {
        stateDir,
        trust,
        rounds,
        tell,
        place: { id, address: '127.0.0.1', apiPort: server.port, mutual: { withoutIdentity: 0 } },
        look: () => rounds.look(AbortSignal.timeout(60_000)),
        async onDisk() {
          const [cluster, admission] = await Promise.all(
            [clusterPath, join(stateDir, 'admission.json')].map((file) => readFile(file, 'utf8')),
          );
          return { cluster: JSON.parse(cluster ?? ''), settings: JSON.parse(admission ?? '').settings };
        },
        isAway: false,
        hasStore: true,
        isBusy: false,
        followedUp: 0,
      };
      hosts.push(host);
      return host;
    },
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  };
}
