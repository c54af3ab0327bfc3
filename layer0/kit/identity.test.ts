import assert from 'node:assert/strict';
import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { writeFileAtomic } from './files.ts';
import { FileIdentity, appRole, closedForMs, identityFiles } from './identity.ts';
import { silentLogger } from './log.ts';
import { waitFor } from './retry.ts';
import { createAuthority, issueCertificate } from './tls.ts';

test('a certificate is read again when it was renewed, and one without its key is not taken', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-identity-'));
  const stop = new AbortController();
  const authority = await createAuthority('test');
  const issued = () => issueCertificate(authority, { name: 'p', role: appRole('p') });
  try {
    const [first, second, third] = [await issued(), await issued(), await issued()];
    const put = (certificate: string, privateKey: string) =>
      writeFileAtomic(join(folder, identityFiles.own), certificate + privateKey);
    await put(first.certificate, first.privateKey);
    await writeFile(join(folder, identityFiles.trusted), authority.certificate);
    const identity = await FileIdentity.open(folder);
    const warned: string[] = [];
    const log = { ...silentLogger(), warn: (message: string) => void warned.push(message) };
    const following = identity.follow({ log, signal: stop.signal, everyMs: 1 });
    await put(second.certificate, first.privateKey);
    await waitFor(() => warned.length > 0, { what: 'the pair to be refused', deadlineMs: 60_000, intervalMs: 5 });
    assert.match(warned[0] ?? '', /has no key that fits it/);
    assert.ok(identity.current.certificate.startsWith(first.certificate));
    await put(third.certificate, third.privateKey);
    const isRenewed = () => identity.current.certificate.startsWith(third.certificate);
    await waitFor(isRenewed, { what: 'the next certificate', deadlineMs: 60_000, intervalMs: 5 });
    await put(second.certificate, '');
    await assert.rejects(FileIdentity.open(folder), { code: 'invalid' });
    stop.abort();
    await following;
  } finally {
    stop.abort();
    await rm(folder, { recursive: true, force: true });
  }
});

test("everybody is known on a host's word only, and no longer than it is given again", async () => {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-identity-'));
  const stop = new AbortController();
  try {
    const authority = await createAuthority('test');
    const { certificate, privateKey } = await issueCertificate(authority, { name: 'p', role: appRole('p') });
    await writeFile(join(folder, identityFiles.own), certificate + privateKey);
    await writeFile(join(folder, identityFiles.trusted), authority.certificate);
    const word = join(folder, identityFiles.closed);
    const identity = await FileIdentity.open(folder);
    const following = identity.follow({ log: silentLogger(), signal: stop.signal, everyMs: 20 });
    const becomes = (isKnown: boolean, what: string) =>
      waitFor(() => identity.isEverybodyKnown === isKnown, { what, deadlineMs: 60_000, intervalMs: 10 });
    assert.equal(identity.isEverybodyKnown, false);
    await writeFile(word, '\n');
    await becomes(true, 'the word to be heard');
    assert.equal((await FileIdentity.open(folder)).isEverybodyKnown, true);
    const past = new Date(Date.now() - 2 * closedForMs);
    await utimes(word, past, past);
    await becomes(false, 'the word to be too old');
    await writeFile(word, '\n');
    await becomes(true, 'the word to be heard again');
    await rm(word);
    await becomes(false, 'the word to be taken back');
    stop.abort();
    await following;
  } finally {
    stop.abort();
    await rm(folder, { recursive: true, force: true });
  }
});
