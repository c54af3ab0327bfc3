import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect, createServer } from 'node:tls';
import { certificatesIn } from '@flynn/kit/certificate';
import { hasCode } from '@flynn/kit/errors';
import { type Identity, anyHost, checkRole, identityFiles, readIdentity } from '@flynn/kit/identity';
import { type Credentials, createAuthority } from '@flynn/kit/tls';
import { admissionFile, trustedOnly } from './authorities.ts';
import type { HostTrust } from './host-trust.ts';
import { trustFixture } from './trust-fixture.ts';

/** Whether the certificate is the authority's. */
function isOf(certificate: string, { certificate: authority }: Pick<Credentials, 'certificate'>): boolean {
  return new X509Certificate(certificate).verify(new X509Certificate(authority).publicKey);
}

/** Both show theirs and check the other's. */
async function doTrust(server: Identity, client: Identity): Promise<boolean> {
  const { trusted: ca, certificate: cert, privateKey: key } = server;
  const listener = createServer({ ca, cert, key, requestCert: true, rejectUnauthorized: true }, (socket) =>
    socket.end('known'),
  );
  listener.on('tlsClientError', () => undefined);
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const address = listener.address();
  assert.ok(address !== null && typeof address === 'object');
  const socket = connect({
    host: '127.0.0.1',
    port: address.port,
    ca: client.trusted,
    cert: client.certificate,
    key: client.privateKey,
    checkServerIdentity: checkRole(anyHost),
  });
  let text = '';
  try {
    for await (const chunk of socket) text += String(chunk);
  } catch {
    // One of them refused.
  } finally {
    listener.close();
  }
  return text === 'known';
}

test('a host that is told of a second authority trusts both and shows what it showed; once that one issues, it has other certificates', async () => {
  await using fixture = await trustFixture();
  const { authority: former } = fixture;
  const next = await createAuthority('flynn test', { now: fixture.now() });
  const trust = await fixture.open();
  const { jobs, identity } = trust;
  await jobs.issue('h1-j1', 'blobstore');
  const folder = jobs.folderOf('h1-j1');
  const file = join(fixture.stateDir, 'tls/authority.pem');
  const before = { host: identity.current, job: await readIdentity(folder) };
  assert.equal(await readFile(file, 'utf8'), former.certificate);
  let told = 0;
  identity.onChange(() => (told += 1));

  await fixture.tell({ authority: former, alsoTrusted: await trustedOnly(next) });
  await trust.renew();
  assert.equal(told, 1);
  assert.equal(identity.current.certificate, before.host.certificate);
  assert.equal(await readFile(file, 'utf8'), former.certificate + next.certificate);
  assert.equal(trust.hostAuthorities, former.certificate + next.certificate);
  assert.equal(trust.shown, former.certificate);
  await jobs.renew({ hasJob: () => true });
  const both = await readIdentity(folder);
  assert.equal(both.certificate, before.job.certificate);
  assert.equal(both.trusted, identity.current.trusted);
  assert.equal(certificatesIn(both.trusted).length, 4);

  await fixture.tell({ authority: next, alsoTrusted: await trustedOnly(former) });
  await trust.renew();
  assert.ok(isOf(identity.current.certificate, next));
  assert.equal(trust.shown, next.certificate);
  assert.equal(await readFile(file, 'utf8'), next.certificate + former.certificate);
  // Of a job that is only being made it stays: it was told whom to trust with all others.
  await jobs.renew({ hasJob: () => false });
  assert.equal((await readIdentity(folder)).certificate, both.certificate);
  await jobs.renew({ hasJob: () => true });
  const ofNext = await readIdentity(folder);
  assert.ok(isOf(ofNext.certificate, await trustedOnlyParts(next)));
  const known = await fixture.open();
  assert.equal(known.identity.current.certificate, identity.current.certificate, 'an agent that starts has the same');

  await fixture.tell({ authority: next });
  await trust.renew();
  assert.equal(trust.hostAuthorities, next.certificate);
  assert.equal(certificatesIn((await readIdentity(folder)).trusted).length, 2);
  assert.equal((await readIdentity(folder)).certificate, ofNext.certificate);
  const last = told;
  await trust.renew();
  assert.equal(told, last, 'nobody is woken for nothing');
});

test('jobs are told whom to trust by an agent that could not the first time, and by one that starts after another was killed before it did', async () => {
  await using fixture = await trustFixture();
  const { authority: former } = fixture;
  const next = await createAuthority('flynn test', { now: fixture.now() });
  const trust = await fixture.open();
  await trust.jobs.issue('h1-j1', 'blobstore');
  const folder = trust.jobs.folderOf('h1-j1');
  const file = join(folder, identityFiles.trusted);
  const known = async (): Promise<number> => certificatesIn((await readIdentity(folder)).trusted).length;

  await fixture.tell({ authority: former, alsoTrusted: await trustedOnly(next) });
  const before = await readFile(file);
  await rm(file);
  await mkdir(file);
  await assert.rejects(trust.renew(), (error) => hasCode(error, 'invalid'));
  await rmdir(file);
  await writeFile(file, before);
  await trust.renew();
  assert.equal(await known(), 4);

  await fixture.tell({ authority: former });
  await (await fixture.open()).renew();
  assert.equal(await known(), 2, 'what is trusted no more is trusted by jobs no more');
});

async function trustedOnlyParts(authority: Credentials): Promise<{ certificate: string }> {
  return { certificate: (await trustedOnly(authority)).parts };
}

test('hosts and jobs that are a phase apart know each other; who trusts the former alone is a stranger in the end', async () => {
  const [former, next] = [await createAuthority('flynn test'), await createAuthority('flynn test')];
  await using one = await trustFixture({ authority: former });
  await using two = await trustFixture({ hostId: 'h2', authority: former });
  const phases = [
    { authority: former },
    { authority: former, alsoTrusted: await trustedOnly(next) },
    { authority: next, alsoTrusted: await trustedOnly(former) },
    { authority: next },
  ];
  // TLS has the machine's clock.
  one.day = two.day = (Date.now() - one.now()) / (24 * 3_600_000);
  const [h1, h2] = [await one.open(), await two.open()];
  const identities = async (trust: HostTrust): Promise<Identity[]> => {
    const jobId = 'job';
    await trust.jobs.issue(jobId, 'blobstore');
    return [trust.identity.current, await readIdentity(trust.jobs.folderOf(jobId))];
  };
  const doKnow = async (): Promise<boolean[]> => {
    const [[host1, job1], [host2, job2]] = [await identities(h1), await identities(h2)];
    assert.ok(host1 !== undefined && job1 !== undefined && host2 !== undefined && job2 !== undefined);
    return [
      await doTrust(host1, host2),
      await doTrust(host2, host1),
      await doTrust(host1, job2),
      await doTrust(host2, job1),
    ];
  };
  assert.deepEqual(await doKnow(), [true, true, true, true]);
  for (const phase of phases.slice(1)) {
    for (const [fixture, trust] of [
      [one, h1],
      [two, h2],
    ] as const) {
      await fixture.tell(phase);
      await trust.renew();
      assert.deepEqual(await doKnow(), [true, true, true, true]);
    }
  }
  await two.tell({ authority: former });
  await h2.renew();
  assert.deepEqual(await doKnow(), [false, false, false, false]);
});

test('a file that is damaged or gone changes nobody’s trust', async () => {
  await using fixture = await trustFixture();
  const trust = await fixture.open();
  const before = trust.identity.current;
  const file = join(fixture.stateDir, admissionFile);
  await writeFile(file, '{');
  await assert.rejects(trust.renew(), /admission\.json is not usable/);
  await rm(file);
  await trust.renew();
  assert.equal(trust.identity.current, before);
});
