/** On this machine's own nft and ip: what the suites need of them is what a host needs. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { lookAtIp, lookAtNft, lookAtWireguard, versionIn } from './tools.ts';

test('the nft and ip of this machine are taken, and their versions are known', async () => {
  const [nft, ip] = await Promise.all([lookAtNft(), lookAtIp()]);
  assert.deepEqual([nft?.refusal, ip?.refusal], [undefined, undefined]);
  assert.match(nft?.version ?? '', /^v\d/);
  assert.match(ip?.version ?? '', /^iproute2-/);
});

test('what a look for WireGuard left that was killed is not taken for a kernel without', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-tools-'));
  const path = process.env['PATH'];
  try {
    // The kernel of such a machine: a folder is the device.
    const ip = `#!/bin/sh
device=${folder}/$3
case $2 in
add) /bin/mkdir "$device" 2> /dev/null || { echo 'RTNETLINK answers: File exists' >&2; exit 2; } ;;
del) /bin/rmdir "$device" 2> /dev/null || { echo "Cannot find device \\"$3\\"" >&2; exit 1; } ;;
esac
`;
    await writeFile(join(folder, 'ip'), ip, { mode: 0o755 });
    await writeFile(join(folder, 'wg'), '#!/bin/sh\n', { mode: 0o755 });
    process.env['PATH'] = folder;
    await mkdir(join(folder, 'flynnprobe'));
    assert.equal(await lookAtWireguard(), undefined);
    assert.equal(existsSync(join(folder, 'flynnprobe')), false);
  } finally {
    process.env['PATH'] = path;
    await rm(folder, { recursive: true });
  }
});

test('versions are found in what the programs of several systems say', () => {
  assert.equal(versionIn('nftables v1.0.6 (Lester Gooch #5)\n'), 'v1.0.6');
  assert.equal(versionIn('ip utility, iproute2-6.1.0, libbpf 1.1.2\n'), 'iproute2-6.1.0');
  assert.equal(versionIn('ip utility, iproute2-ss200127\n'), 'iproute2-ss200127');
  assert.equal(versionIn('BusyBox v1.36.1 (2024-06-10) multi-call binary.\n'), 'v1.36.1');
  assert.equal(versionIn(''), 'of an unknown version');
});
