import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hostAuthoritiesOf, trustedOnly } from '@flynn/host-agent/trust/authorities';
import { certificatesIn, fingerprintOf, parseCertificate } from '@flynn/kit/certificate';
import { hasCode } from '@flynn/kit/errors';
import { type Credentials, createAuthority } from '@flynn/kit/tls';
import { withClosing, withIssuing, withNextAuthority, withoutAuthorityChange } from './authority-round.ts';
import { made } from '../cluster-fixture.ts';
import { checkRotated } from './rotation.ts';
import { type Cluster, clusterSchema, sharedSchema } from '../settings.ts';

const begun = { id: '0199c0de-0000-7000-8000-000000000000', since: new Date(0).toISOString() };

async function clusterOf(authority: Credentials): Promise<Cluster> {
  return { ...made(), authority };
}

test('each phase has who issues and who is trusted, in a round of its own; whoever trusts in one is shown nothing strange in the next', async () => {
  const [former, next] = [await createAuthority('flynn'), await createAuthority('flynn')];
  const before = await clusterOf(former);
  const opening = await withNextAuthority(before, next, begun);
  const issuing = await withIssuing(opening);
  const closing = withClosing(issuing);
  const done = withoutAuthorityChange(closing);
  const phases = [before, opening, issuing, closing, done];
  assert.deepEqual(
    phases.map(({ authority, authorityRound, authorityChange }) => [
      authority === former ? 'former' : 'new',
      authorityRound,
      authorityChange?.phase,
    ]),
    [
      ['former', undefined, undefined],
      ['former', 1, 'opening'],
      ['new', 2, 'issuing'],
      ['new', 3, 'closing'],
      ['new', 3, undefined],
    ],
  );
  for (const [index, now] of phases.entries()) {
    const trusted = certificatesIn(hostAuthoritiesOf(now)).map(fingerprintOf);
    assert.equal(trusted[0], fingerprintOf(now.authority.certificate), 'the one that issues first');
    const issuers = phases.slice(Math.max(0, index - 1), index + 2).map(({ authority }) => authority.certificate);
    // In the last phase nothing of the former is shown any more: that is what the one before waits for.
    const shown = index >= 3 ? [next.certificate] : issuers;
    for (const issuer of shown) assert.ok(trusted.includes(fingerprintOf(issuer)), `phase ${index}`);
  }
  assert.deepEqual(opening.alsoTrusted?.certificate, next.certificate);
  assert.deepEqual(issuing.alsoTrusted?.certificate, (await trustedOnly(former)).certificate);
  assert.equal(done.alsoTrusted, undefined);
  // The former's key is nowhere from issuing on; the one that is to issue is in the file before anybody trusts it.
  assert.equal(opening.authorityChange?.next, next);
  for (const file of [issuing, closing, done])
    assert.ok(!JSON.stringify(file).includes(former.privateKey.slice(40, 90)));
  const endorsement = parseCertificate(done.endorsement ?? '');
  assert.ok(endorsement.verify(parseCertificate(former.certificate).publicKey));
});

test('a change is gone on with from any of its phases, begun again or not, and each part of it is done once', async () => {
  const [former, next, other] = await Promise.all([1, 2, 3].map(() => createAuthority('flynn')));
  assert.ok(former && next && other);
  const opening = await withNextAuthority(await clusterOf(former), next, begun);
  assert.equal(await withNextAuthority(opening, other, begun), opening);
  const read = clusterSchema.parse(JSON.parse(JSON.stringify(opening)));
  assert.deepEqual(read, opening);
  const issuing = await withIssuing(read);
  assert.equal(await withIssuing(issuing), issuing);
  assert.equal(withClosing(opening), opening);
  assert.equal(withoutAuthorityChange(issuing), issuing);
  const closing = withClosing(issuing);
  assert.equal(withClosing(closing), closing);
  const done = withoutAuthorityChange(closing);
  assert.equal(await withIssuing(done), done);
  const again = await withNextAuthority(done, other, begun);
  assert.equal(again.authorityRound, 4);
  assert.deepEqual(again.authority, next);
});

test('other hosts are told what is trusted, what issues and who has signed for it, and nothing of the change; another version is not installed meanwhile', async () => {
  const [former, next] = [await createAuthority('flynn'), await createAuthority('flynn')];
  const opening = await withNextAuthority(await clusterOf(former), next, begun);
  const told = sharedSchema.parse(await withIssuing(opening));
  assert.deepEqual([told.authority, told.authorityRound], [next, 2]);
  assert.ok(!('authorityChange' in told) && told.endorsement !== undefined);
  const openly = JSON.stringify(sharedSchema.parse(opening));
  assert.ok(!openly.includes(JSON.stringify(next.privateKey).slice(40, 90)));
  assert.throws(
    () => checkRotated(opening),
    (error) => hasCode(error, 'conflict') && /the authority is being made anew/.test(String(error)),
  );
});
