import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
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

test('an app is shown at https:// once there is a certificate for its name, and at the others as before', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  const made = await issueCertificate(await createAuthority('Ours'), { name: 'x', addresses: ['*.example.com'] });
  const [certFile, keyFile] = [join(env.desk.home, 'cert.pem'), join(env.desk.home, 'key.pem')];
  await writeFile(certFile, made.certificate);
  await writeFile(keyFile, made.privateKey);
  const run = async (...argv: string[]) => {
    const { code, stdout, stderr } = await env.desk.run(argv);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  const urls = async () => /^URL: +(.*)$/m.exec(await run('info', '-a', 'hello'))?.[1];
  await run('route', 'add', 'http', 'shop.example.com/api', '-a', 'hello');
  assert.equal(await urls(), 'http://hello.flynn.localhost http://shop.example.com/api');
  await run('route', 'cert', 'add', '*.example.com', '--cert', certFile, '--key', keyFile);
  const isSecure = async () => (await urls()) === 'http://hello.flynn.localhost https://shop.example.com/api';
  await waitFor(isSecure, { what: 'the route at https://', deadlineMs: 60_000 });
  assert.match(await run('route', '-a', 'hello'), /^https:\/\/shop\.example\.com\/api /m);
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

test('an authority is set, shown without its secrets, asked and switched off', async () => {
  await using env = await openDeskWithController();
  const run = async (...argv: string[]) => env.desk.run(['route', 'cert', ...argv]);
  const none = await run('authority');
  assert.equal(none.code, 1);
  assert.match(none.stderr, /no authority is set.*flynn route cert authority set letsencrypt/);
  assert.match((await run('request', 'shop.example.com')).stderr, /no authority is set/);
  const key = join(env.desk.home, 'eab');
  await writeFile(key, 'c2VjcmV0\n');
  const url = 'https://localhost:1/directory';
  const binding = ['--eab-key-id', 'kid-1', '--eab-hmac-key', key];
  const set = await run('authority', 'set', url, '--email', 'a@b.net', '--email', 'c@b.net', ...binding);
  assert.equal(set.code, 0, set.stderr);
  assert.deepEqual(set.stdout.trimEnd().split('\n'), [
    `directory: ${url}`,
    'challenge: http-01',
    'contact: a@b.net, c@b.net',
    'account binding: kid-1',
    'names: those of all routes with public names',
  ]);
  assert.match((await run('authority', 'set', url, '--challenge', 'dns-01')).stderr, /dns-01 needs a hook/);
  assert.match(
    (await run('authority', 'set', url, '--challenge', 'x')).stderr,
    /choose from http-01, tls-alpn-01, dns-01/,
  );
  assert.match((await run('authority', 'set', url, '--eab-key-id', 'x')).stderr, /go together/);
  assert.match((await run('authority', 'set', 'acme')).stderr, /"acme" is no address of a directory/);
  const wellKnown = await run('authority', 'set', 'letsencrypt', '--email', 'a@b.net', '--no-automatic');
  assert.match(wellKnown.stdout, /^directory: https:\/\/acme-v02\.api\.letsencrypt\.org\/directory\n/);
  assert.equal((await run('authority', 'set', url, '--email', 'a@b.net')).code, 0);
  const asked = await run('request', 'shop.example.com');
  assert.match(asked.stdout, /^asked for shop\.example\.com; "flynn route cert" shows/);
  assert.equal((await run('authority', 'off')).stdout, 'no more certificates are asked for\n');
  assert.equal((await run('authority')).code, 1);
});
