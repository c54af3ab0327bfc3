import assert from 'node:assert/strict';
import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { FileIdentity, appRole, closedForMs, identityFiles } from './identity.ts';
import { silentLogger } from './log.ts';
import { waitFor } from './retry.ts';
import { createAuthority, issueCertificate } from './tls.ts';

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
      waitFor(() => identity.isEverybodyKnown === isKnown, { what, deadlineMs: 20_000, intervalMs: 10 });
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
