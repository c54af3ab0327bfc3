import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { openDeskWithController } from '../testing.ts';

test('a certificate is added from two files, listed with what is to be known of it, and removed', async () => {
  await using env = await openDeskWithController();
  const authority = await createAuthority('Ours');
  const made = await issueCertificate(authority, { name: 'x', addresses: ['shop.example.com', '*.shop.example.com'] });
  const [certFile, keyFile] = [join(env.desk.home, 'cert.pem'), join(env.desk.home, 'key.pem')];
  await writeFile(certFile, made.certificate);
  await writeFile(keyFile, made.privateKey);
  const run = async (...argv: string[]) => {
    const { code, stdout, stderr } = await env.desk.run(['route', 'cert', ...argv]);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  const added = await run('add', 'shop.example.com', '*.shop.example.com', '--cert', certFile, '--key', keyFile);
  assert.match(
    added,
    /^shop\.example\.com, \*\.shop\.example\.com served with it until \d{4}-\d\d-\d\d\nnote: signed by Ours, which is not/,
  );
  const [header, row, ...more] = (await run()).trimEnd().split('\n');
  assert.match(header ?? '', /^DOMAINS +SOURCE +EXPIRES +STATE +WHY$/);
  assert.match(row ?? '', /^shop\.example\.com,\*\.shop\.example\.com +own +\d{4}-\d\d-\d\d +ready +signed by Ours/);
  assert.deepEqual(more, []);
  assert.equal(await run('remove', 'shop.example.com'), 'certificate for shop.example.com removed\n');
  assert.equal(await run('--json'), '[]\n');
});

test('what is wrong with the files is said', async () => {
  await using env = await openDeskWithController();
  const authority = await createAuthority('Ours');
  const made = await issueCertificate(authority, { name: 'x', addresses: ['shop.example.com'] });
  const [certFile, keyFile] = [join(env.desk.home, 'cert.pem'), join(env.desk.home, 'key.pem')];
  await writeFile(certFile, made.certificate);
  await writeFile(keyFile, made.privateKey);
  const refusalOf = async (...argv: string[]) => {
    const { code, stderr } = await env.desk.run(['route', 'cert', 'add', ...argv]);
    assert.notEqual(code, 0);
    return stderr;
  };
  assert.match(await refusalOf('shop.example.com', '--cert', certFile), /both files are needed/);
  assert.match(await refusalOf('shop.example.com', '--cert', '-', '--key', '-'), /one file only/);
  assert.match(await refusalOf('shop.example.com', '--cert', 'no.pem', '--key', keyFile), /cannot read no\.pem/);
  assert.match(await refusalOf('shop.example.com', '--cert', keyFile, '--key', certFile), /seem to be exchanged/);
  assert.match(
    await refusalOf('blog.example.com', '--cert', certFile, '--key', keyFile),
    /does not cover blog\.example\.com: it is for shop\.example\.com/,
  );
});
