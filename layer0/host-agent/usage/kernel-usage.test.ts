import assert from 'node:assert/strict';
import { mkdirSync, mkdtempDisposableSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { readUsage } from './kernel-usage.ts';

const id = 'c0ffee'.padEnd(64, '0');
const pid = 4711;

const network = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  999      1    0    0    0     0          0         0      999       1    0    0    0     0       0          0
  eth0: 1200      8    0    0    0     0          0         0      340       4    0    0    0     0       0          0
`;

/** As the kernel has it: paths below /proc and /sys/fs/cgroup. */
function kernelWith(files: Readonly<Record<string, string>>) {
  const folder = mkdtempDisposableSync(join(tmpdir(), 'flynn-kernel-'));
  for (const [path, text] of Object.entries({ [`proc/${pid}/net/dev`]: network, ...files })) {
    mkdirSync(dirname(join(folder.path, path)), { recursive: true });
    writeFileSync(join(folder.path, path), text);
  }
  for (const [process, namespace] of [
    [String(pid), 'net:[2]'],
    ['self', 'net:[1]'],
  ] as const) {
    mkdirSync(join(folder.path, 'proc', process, 'ns'), { recursive: true });
    symlinkSync(namespace, join(folder.path, 'proc', process, 'ns/net'));
  }
  const places = { proc: join(folder.path, 'proc'), controlGroups: join(folder.path, 'cgroup') };
  return { read: () => readUsage(pid, id, places), [Symbol.dispose]: () => folder[Symbol.dispose]() };
}

const used = {
  memoryBytes: 5_000_000 - 1_000_000,
  cpuNanoseconds: 1_500_000_000,
  pids: 3,
  network: { receivedBytes: 1200, sentBytes: 340 },
};

const version2 = (group: string): Record<string, string> => ({
  [`cgroup/${group}/memory.current`]: '5000000\n',
  [`cgroup/${group}/memory.stat`]:
    'anon 3500000\nfile 1500000\ninactive_anon 0\ninactive_file 1000000\nactive_file 500000\n',
  [`cgroup/${group}/cpu.stat`]: 'usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n',
  [`cgroup/${group}/pids.current`]: '3\n',
});

test('version 2, with groups that systemd made or the engine itself', () => {
  for (const group of [`system.slice/docker-${id}.scope`, `docker/${id}`]) {
    using kernel = kernelWith({ [`proc/${pid}/cgroup`]: `0::/${group}\n`, ...version2(group) });
    assert.deepEqual(kernel.read(), used, group);
  }
});

test('a container that has groups of its own is counted whole, not by the one of its first process', () => {
  const group = `system.slice/docker-${id}.scope`;
  using kernel = kernelWith({ [`proc/${pid}/cgroup`]: `0::/${group}/init.scope\n`, ...version2(group) });
  assert.deepEqual(kernel.read(), used);
});

test('version 1, beside an empty hierarchy of version 2', () => {
  using kernel = kernelWith({
    [`proc/${pid}/cgroup`]: `8:pids:/docker/${id}\n4:memory:/docker/${id}\n2:cpu,cpuacct:/docker/${id}\n1:name=systemd:/docker/${id}\n0::/docker/${id}\n`,
    [`cgroup/memory/docker/${id}/memory.usage_in_bytes`]: '5000000\n',
    [`cgroup/memory/docker/${id}/memory.stat`]: 'inactive_file 7\ntotal_inactive_file 1000000\n',
    [`cgroup/cpuacct/docker/${id}/cpuacct.usage`]: '1500000000\n',
    [`cgroup/pids/docker/${id}/pids.current`]: '3\n',
  });
  assert.deepEqual(kernel.read(), used);
});

test('nothing is said of a process that is another’s or gone, or where the kernel does not count', () => {
  const group = `docker/${id}`;
  using other = kernelWith({ [`proc/${pid}/cgroup`]: '0::/user.slice\n', ...version2('user.slice') });
  assert.equal(other.read(), undefined);
  using gone = kernelWith(version2(group));
  assert.equal(gone.read(), undefined);
  // Without the controller of memory the engine is asked, which knows as little but says so.
  const { [`cgroup/${group}/memory.current`]: _, ...uncounted } = version2(group);
  using bare = kernelWith({ [`proc/${pid}/cgroup`]: `0::/${group}\n`, ...uncounted });
  assert.equal(bare.read(), undefined);
});
