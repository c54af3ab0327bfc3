import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { branchName } from './model.ts';
import { checkOutside, hostOfSource } from './url.ts';

test('a repository is fetched over the network by https or ssh; whatever git would take for something else is refused', () => {
  const hosts: [string, string][] = [
    ['https://git.example.com/shop.git', 'git.example.com'],
    ['http://192.0.2.1:8080/shop', '192.0.2.1'],
    ['ssh://git@git.example.com:22/~ann/shop.git', 'git.example.com'],
    ['ssh://git@[2001:db8::1]/shop.git', '2001:db8::1'],
    ['git@git.example.com:team/shop.git', 'git.example.com'],
  ];
  for (const [url, host] of hosts) assert.equal(hostOfSource(url), host);
  const refused: [string, RegExp][] = [
    ['file:///etc', /file is not known/],
    ['/etc', /is no address/],
    ['ext::sh -c id', /is no address/],
    ['git://git.example.com/shop', /git is not known/],
    ['--upload-pack=id', /is no address/],
    ['git@-oProxyCommand=id:x', /is no address/],
    ['git@git.example.com:-x', /is no address/],
    ['ssh://-oProxyCommand=id/x', /is no address|names no host/],
    ['https://git.example.com/', /names no repository/],
    ['ssh://git@git.example.com%2f.example.com/x', /not the name of a host/],
    ["ssh://git@a';id;'/x", /not the name of a host/],
    ['https://x:hunter2@git.example.com/shop', /--deploy-key/],
    ['https://hunter2@git.example.com/shop', /--deploy-key/],
  ];
  for (const [url, why] of refused) {
    assert.throws(
      () => hostOfSource(url),
      (error) => hasCode(error, 'invalid') && why.test(error.message) && !error.message.includes('hunter2'),
      url,
    );
  }
});

test('a branch is named as git names one, and is never an option or a range', () => {
  for (const name of ['main', 'release/2.x', 'fix-#12', 'a@b']) assert.ok(branchName.safeParse(name).success, name);
  for (const name of ['', '-x', 'a..b', 'a b', 'a:b', 'a^', 'a*', '/a', 'a/', 'a//b', '.a', 'a.lock', 'a@{1}'])
    assert.ok(!branchName.safeParse(name).success, name);
});

test('what is inside the cluster, or is found there, is refused; what is found nowhere is told', async () => {
  const isDenied = (error: unknown) => hasCode(error, 'denied');
  const { signal } = new AbortController();
  await assert.rejects(checkOutside('127.0.0.1', [], signal), isDenied);
  await assert.rejects(checkOutside('localhost', [], signal), isDenied);
  await assert.rejects(checkOutside('198.51.100.7', ['198.51.100.0/24'], signal), isDenied);
  assert.deepEqual(await checkOutside('198.51.100.7', [], signal), ['198.51.100.7']);
  await assert.rejects(checkOutside('nowhere.invalid', [], signal), (error) => hasCode(error, 'unavailable'));
  const stopped = AbortSignal.abort(new FlynnError('cancelled', 'the worker ends'));
  await assert.rejects(checkOutside('localhost', [], stopped), /the worker ends/);
});
