import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';

const program = new URL('./handover.ts', import.meta.url).pathname;

test('a hundred routers take over from each other at one port, and not one connection is lost', async () => {
  // A network of its own, in which the kernel moves what waits at a closed port as host agents have it do.
  const script = 'ip link set lo up && echo 1 > /proc/sys/net/ipv4/tcp_migrate_req && exec "$@"';
  const { stdout } = await promisify(execFile)(
    'unshare',
    ['--net', 'sh', '-c', script, 'sh', process.execPath, program, '100'],
    { timeout: 300_000 },
  );
  const { answered, failed } = JSON.parse(stdout);
  assert.deepEqual(failed, {});
  assert.ok(answered > 2_000, String(answered));
});
