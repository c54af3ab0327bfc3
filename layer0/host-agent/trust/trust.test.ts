import assert from 'node:assert/strict';
import { X509Certificate, createPrivateKey } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readIdentity, roleOf } from '@flynn/kit/identity';
import { issueCertificate } from '@flynn/kit/tls';
import { jobOf, openHost, scenario } from '../host-fixture.ts';
import { admissionFile } from './authorities.ts';
import { readHostIdentity } from './host-trust.ts';
import { trustFixture } from './trust-fixture.ts';

const roleIn = (certificate: string): string | undefined => roleOf(new X509Certificate(certificate).subjectAltName);

test('the host makes its certificate again when two thirds of its life are over, and tells those who show it', async () => {
  await using fixture = await trustFixture();
  const trust = await fixture.open();
  const first = trust.identity.current;
  assert.equal(roleIn(first.certificate), 'flynn:host/h1');
  let told = 0;
  trust.identity.onChange(() => (told += 1));
  fixture.day = 480;
  await trust.renew();
  assert.equal(trust.identity.current, first);
  fixture.day = 490;
  await trust.renew();
  assert.equal(told, 1);
  const { certificate, privateKey } = trust.identity.current;
  assert.notEqual(certificate, first.certificate);
  assert.notEqual(privateKey, first.privateKey);
  assert.equal(await readFile(join(fixture.stateDir, 'tls/host.pem'), 'utf8'), certificate);
  assert.equal(await readFile(join(fixture.stateDir, 'tls/host-key.pem'), 'utf8'), privateKey);
  // On command at once; and what an agent that starts finds is good, so it stays.
  await trust.renew({ isForced: true });
  assert.equal(told, 2);
  assert.equal((await fixture.open()).identity.current.certificate, trust.identity.current.certificate);
});

test('who speaks as the host knows by the agent’s word whether all of the platform shows certificates', async () => {
  await using fixture = await trustFixture();
  const trust = await fixture.open();
  assert.equal(trust.identity.isEverybodyKnown, false);
  trust.isEverybodyKnown = true;
  assert.equal(trust.identity.isEverybodyKnown, true);
});

test('a program that speaks in the place of the agent is the same host, and knows hosts and parts', async () => {
  await using fixture = await trustFixture();
  const { identity, jobs } = await fixture.open();
  await jobs.issue('h1-j1', 'blobstore');
  const part = new X509Certificate((await readIdentity(jobs.folderOf('h1-j1'))).certificate);
  const own = (await readHostIdentity(fixture.stateDir))?.current;
  assert.deepEqual([own?.certificate, own?.privateKey], [identity.current.certificate, identity.current.privateKey]);
  const trusted = own?.trusted
    .match(/-----BEGIN[^]*?-----END CERTIFICATE-----/g)
    ?.map((pem) => new X509Certificate(pem));
  const knows = (one: X509Certificate) => trusted?.some(({ publicKey }) => one.verify(publicKey));
  assert.deepEqual([knows(new X509Certificate(identity.current.certificate)), knows(part)], [true, true]);
});

test('a certificate of before there were roles is replaced, and what somebody else put there is taken up', async () => {
  await using fixture = await trustFixture();
  const { certificate, privateKey } = await issueCertificate(fixture.authority, {
    name: 'h1',
    addresses: ['192.0.2.1', '100.100.0.1', '127.0.0.1', 'localhost'],
    now: fixture.now(),
  });
  await writeFile(join(fixture.stateDir, 'tls/host.pem'), certificate);
  await writeFile(join(fixture.stateDir, 'tls/host-key.pem'), privateKey);
  const trust = await fixture.open();
  assert.notEqual(trust.identity.current.certificate, certificate);
  assert.equal(roleIn(trust.identity.current.certificate), 'flynn:host/h1');
  const other = await fixture.open();
  await other.renew({ isForced: true });
  await trust.renew();
  assert.equal(trust.identity.current.certificate, other.identity.current.certificate);
});

test('a certificate without its key, as a power cut may leave it, or a damaged one is made again', async () => {
  await using fixture = await trustFixture();
  const trust = await fixture.open();
  const first = trust.identity.current;
  const other = await issueCertificate(fixture.authority, { name: 'h1', now: fixture.now() });
  await writeFile(join(fixture.stateDir, 'tls/host-key.pem'), other.privateKey);
  await trust.renew();
  const second = trust.identity.current;
  assert.notEqual(second.certificate, first.certificate);
  assert.ok(new X509Certificate(second.certificate).checkPrivateKey(createPrivateKey(second.privateKey)));
  for (const name of ['tls/host.pem', 'tls/host-key.pem']) {
    await writeFile(join(fixture.stateDir, name), '');
    const { certificate, privateKey } = (await fixture.open()).identity.current;
    assert.ok(new X509Certificate(certificate).checkPrivateKey(createPrivateKey(privateKey)), name);
  }
});

test('renewed by several at once, certificate and key still belong together', async () => {
  await using fixture = await trustFixture();
  const trust = await fixture.open();
  await Promise.all(Array.from({ length: 8 }, () => trust.renew({ isForced: true })));
  const [certificate = '', privateKey = ''] = await Promise.all(
    ['tls/host.pem', 'tls/host-key.pem'].map((name) => readFile(join(fixture.stateDir, name), 'utf8')),
  );
  assert.ok(new X509Certificate(certificate).checkPrivateKey(createPrivateKey(privateKey)));
  assert.equal(trust.identity.current.certificate, certificate);
});

test('a host without the key of the authority has no role to show', async () => {
  await using fixture = await trustFixture();
  await rm(join(fixture.stateDir, admissionFile));
  await assert.rejects(fixture.open(), /no authority/);
});

test("a job's certificate is of its app, of an authority that etcd does not know, and is made again in time", async () => {
  await using fixture = await trustFixture();
  const { jobs, identity } = await fixture.open();
  const folder = jobs.folderOf('h1-j1');
  await jobs.issue('h1-j1', 'blobstore');
  const first = await readIdentity(folder);
  assert.equal(roleIn(first.certificate), 'flynn:app/blobstore');
  assert.equal(
    new X509Certificate(first.certificate).checkIssued(new X509Certificate(fixture.authority.certificate)),
    false,
  );
  assert.equal(first.trusted, identity.current.trusted);
  const hasJob = (jobId: string) => jobId === 'h1-j1';
  fixture.day = 4;
  await jobs.issue('h1-j1', 'blobstore');
  await jobs.renew({ hasJob });
  assert.deepEqual(await readIdentity(folder), first);
  fixture.day = 5;
  await jobs.renew({ hasJob });
  const second = await readIdentity(folder);
  assert.notEqual(second.certificate, first.certificate);
  assert.equal(roleIn(second.certificate), 'flynn:app/blobstore');
  // One that is started again under another name has that name.
  await jobs.issue('h1-j1', 'router');
  assert.equal(roleIn((await readIdentity(folder)).certificate), 'flynn:app/router');
});

test('the certificate of a job that is gone goes when it would be made again; one that is damaged keeps no other from it', async () => {
  await using fixture = await trustFixture();
  const { jobs } = await fixture.open();
  for (const jobId of ['h1-a', 'h1-gone', 'h1-z']) await jobs.issue(jobId, 'runner');
  const before = await readIdentity(jobs.folderOf('h1-z'));
  await jobs.renew({ hasJob: (jobId) => jobId !== 'h1-gone' });
  assert.ok(existsSync(jobs.folderOf('h1-gone')));
  await jobs.renew({ hasJob: (jobId) => jobId === 'h1-a', isForced: true });
  assert.deepEqual(await readIdentity(jobs.folderOf('h1-z')), before, 'its container is perhaps only being made');
  fixture.day = 5;
  await writeFile(join(jobs.folderOf('h1-a'), 'identity.pem'), 'damaged');
  await jobs.renew({ hasJob: (jobId) => jobId !== 'h1-gone' });
  assert.equal(existsSync(jobs.folderOf('h1-gone')), false);
  // Once it is started again.
  await jobs.issue('h1-a', 'runner');
  assert.equal(roleIn((await readIdentity(jobs.folderOf('h1-a'))).certificate), 'flynn:app/runner');
  assert.notEqual((await readIdentity(jobs.folderOf('h1-z'))).certificate, before.certificate);
});

test('a folder that never had a certificate goes with its job, but not while one may be written only', async () => {
  await using fixture = await trustFixture();
  const { jobs } = await fixture.open();
  const at = (ms: number) => new Date(fixture.now() - ms);
  for (const [jobId, ageMs] of [
    ['h1-old', 2 * 3_600_000],
    ['h1-new', 60_000],
    ['h1-wanted', 2 * 3_600_000],
  ] as const) {
    await mkdir(jobs.folderOf(jobId), { recursive: true });
    await utimes(jobs.folderOf(jobId), at(ageMs), at(ageMs));
  }
  await jobs.renew({ hasJob: (jobId) => jobId === 'h1-wanted' });
  const areThere = ['h1-old', 'h1-new', 'h1-wanted'].map((jobId) => existsSync(jobs.folderOf(jobId)));
  assert.deepEqual(areThere, [false, true, true]);
});

test('a job that is to be known by its app finds its certificate when it starts; others have none', async () => {
  await using fixture = await trustFixture();
  const trust = await fixture.open();
  await scenario(async ({ engine, store }) => {
    const host = await openHost({
      engine,
      store,
      settings: { identities: trust.jobs },
      async beforeStart(job) {
        assert.equal(existsSync(trust.jobs.folderOf(job.id)), job.template.identity !== undefined);
      },
    });
    const identified = { identity: 'blobstore', isAlwaysIdentified: true };
    const [part, app] = [jobOf('part', identified), jobOf('app', { isAlwaysIdentified: true })];
    await host.assign([part, app]);
    for (const job of [part, app]) await host.reach(job, 'running', ({ state }) => state === 'running');
    await host.stop();
    const specs = new Map(
      (await engine.list()).map(({ labels }) => [
        labels['flynn.job'],
        [labels['flynn.identity'], labels['flynn.always-identified']],
      ]),
    );
    assert.deepEqual(specs.get(part.id), ['blobstore', '1']);
    assert.deepEqual(specs.get(app.id), [undefined, undefined]);
  });
});
