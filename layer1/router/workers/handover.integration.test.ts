import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';

const program = new URL('./handover.ts', import.meta.url).pathname;
// A network of its own, in which the kernel moves what waits at a closed port as host agents have it do.
const script = 'ip link set lo up && echo 1 > /proc/sys/net/ipv4/tcp_migrate_req && exec "$@"';

type Tally = {
  answered: number;
  unheard: number;
  failed: Record<string, number>;
  counted: { requests: number; answers: number };
};

async function handOver(what: string, times: number): Promise<Tally> {
  const command = ['--net', 'sh', '-c', script, 'sh', process.execPath, program, what, String(times)];
  const { stdout } = await promisify(execFile)('unshare', command, { timeout: 300_000 });
  return JSON.parse(stdout);
}

describe('routers take over from each other at one port under load, and no request that was taken is lost:', () => {
  test('a hundred, one after the other', async () => {
    const { answered, unheard, failed } = await handOver('routers', 100);
    assert.deepEqual(failed, {});
    // The kernel's own, of `closing.ts`: one in six hundred hand-overs.
    assert.ok(unheard <= 2, String(unheard));
    assert.ok(answered > 2_000, String(answered));
  });

  test('whole programs, with their workers', async () => {
    const { answered, unheard, failed } = await handOver('programs', 2);
    assert.deepEqual(failed, {});
    assert.ok(unheard <= 1, String(unheard));
    assert.ok(answered > 200, String(answered));
  });

  test('a worker that comes and goes', async () => {
    const { answered, unheard, failed, counted } = await handOver('workers', 5);
    assert.deepEqual(failed, {});
    assert.ok(unheard <= 1, String(unheard));
    assert.ok(answered > 200, String(answered));
    // What those that left had counted is neither lost nor said twice.
    for (const count of Object.values(counted))
      assert.ok(count >= answered && count <= answered + unheard, String(count));
  });
});
