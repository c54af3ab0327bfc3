/** A host's state directory as bootstrap leaves it, for tests. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@flynn/kit/log';
import { type Credentials, createAuthority } from '@flynn/kit/tls';
import { hostCertificateOf } from './certificate-files.ts';
import { HostTrust, admissionFile } from './host-trust.ts';

export type TrustFixture = AsyncDisposable & {
  stateDir: string;
  authority: Credentials;
  /** Days since it began. */
  day: number;
  now(): number;
  open(): Promise<HostTrust>;
};

export async function trustFixture(): Promise<TrustFixture> {
  const begin = Date.parse('2030-01-01T00:00:00Z');
  const stateDir = await mkdtemp(join(tmpdir(), 'flynn-trust-'));
  const authority = await createAuthority('flynn test', { now: begin });
  await mkdir(join(stateDir, 'tls'));
  await writeFile(join(stateDir, admissionFile), JSON.stringify({ settings: { authority } }));
  const wanted = hostCertificateOf({ hostId: 'h1', address: '192.0.2.1', gateway: '100.100.0.1' });
  const fixture: TrustFixture = {
    stateDir,
    authority,
    day: 0,
    now: () => begin + fixture.day * 24 * 3_600_000,
    async open() {
      const trust = await HostTrust.open({ stateDir, wanted, now: () => fixture.now(), log: silentLogger() });
      if (trust === undefined) throw new Error('there is no authority in the state directory');
      return trust;
    },
    [Symbol.asyncDispose]: () => rm(stateDir, { recursive: true, force: true }),
  };
  return fixture;
}
