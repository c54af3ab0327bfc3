/** A host's state directory as bootstrap leaves it, for tests. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@flynn/kit/log';
import { type Credentials, createAuthority } from '@flynn/kit/tls';
import { hostCertificateOf } from './certificate-files.ts';
import { type AuthoritySettings, admissionFile } from './authorities.ts';
import { HostTrust } from './host-trust.ts';

export type TrustFixture = AsyncDisposable & {
  stateDir: string;
  authority: Credentials;
  /** Days since it began. */
  day: number;
  now(): number;
  /** As bootstrap writes it when the cluster's authority is made anew. */
  tell(settings: AuthoritySettings): Promise<void>;
  open(): Promise<HostTrust>;
};

/** `authority`: of the cluster that the host is of, default one of its own. */
export async function trustFixture(options: { hostId?: string; authority?: Credentials } = {}): Promise<TrustFixture> {
  const begin = Date.parse('2030-01-01T00:00:00Z');
  const stateDir = await mkdtemp(join(tmpdir(), 'flynn-trust-'));
  const { hostId = 'h1', authority = await createAuthority('flynn test', { now: begin }) } = options;
  await mkdir(join(stateDir, 'tls'));
  const wanted = hostCertificateOf({ hostId, address: '192.0.2.1', gateway: '100.100.0.1' });
  const fixture: TrustFixture = {
    stateDir,
    authority,
    day: 0,
    now: () => begin + fixture.day * 24 * 3_600_000,
    tell: (settings) => writeFile(join(stateDir, admissionFile), JSON.stringify({ settings })),
    async open() {
      const trust = await HostTrust.open({ stateDir, wanted, now: () => fixture.now(), log: silentLogger() });
      if (trust === undefined) throw new Error('there is no authority in the state directory');
      return trust;
    },
    [Symbol.asyncDispose]: () => rm(stateDir, { recursive: true, force: true }),
  };
  await fixture.tell({ authority });
  return fixture;
}
