/** On this machine's own nft and ip: what the suites need of them is what a host needs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lookAtIp, lookAtNft, versionIn } from './tools.ts';

test('the nft and ip of this machine are taken, and their versions are known', async () => {
  const [nft, ip] = await Promise.all([lookAtNft(), lookAtIp()]);
  assert.deepEqual([nft?.refusal, ip?.refusal], [undefined, undefined]);
  assert.match(nft?.version ?? '', /^v\d/);
  assert.match(ip?.version ?? '', /^iproute2-/);
});

test('versions are found in what the programs of several systems say', () => {
  assert.equal(versionIn('nftables v1.0.6 (Lester Gooch #5)\n'), 'v1.0.6');
  assert.equal(versionIn('ip utility, iproute2-6.1.0, libbpf 1.1.2\n'), 'iproute2-6.1.0');
  assert.equal(versionIn('ip utility, iproute2-ss200127\n'), 'iproute2-ss200127');
  assert.equal(versionIn('BusyBox v1.36.1 (2024-06-10) multi-call binary.\n'), 'v1.36.1');
  assert.equal(versionIn(''), 'of an unknown version');
});
