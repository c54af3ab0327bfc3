import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hosts } from '@flynn/controller/hosts/api';
import { waitFor } from '@flynn/kit/retry';
import { openDeskWithController } from '../testing.ts';

test('`host replace` refuses what cannot work before it changes anything', async () => {
  await using env = await openDeskWithController({ hosts: 2 });
  const { desk, controller } = env;
  const refused = async (args: readonly string[], code: number, pattern: RegExp): Promise<void> => {
    const ran = await desk.run(['host', 'replace', ...args]);
    assert.deepEqual([ran.code, pattern.test(ran.stderr)], [code, true], ran.stderr);
  };
  await refused(['host1', 'host1', '--yes'], 2, /cannot take its own place/);
  await refused(['host1', 'host9', '--yes'], 1, /no host "host9"/);
  await refused(['host1', 'host2'], 2, /this empties host1: repeat it with --yes/);
  await desk.run(['host', 'cordon', 'host2']);
  await refused(['host1', 'host2', '--yes'], 1, /host2 is cordoned .*flynn host uncordon host2/);
  await desk.run(['host', 'uncordon', 'host2']);
  await controller.deployApp('shop', { db: { volumes: [{ name: 'data', path: '/data' }] } });
  await desk.run(['-a', 'shop', 'scale', 'db=1']);
  const [{ hostId = '' } = {}] = await controller.jobsOf('shop', 1);
  const other = hostId === 'host1' ? 'host2' : 'host1';
  await refused([hostId, other, '--yes'], 1, /data of shop \(db\)[^]*back them up/);
  assert.match((await desk.run(['host', 'show', hostId])).stdout, /^alone has +data of shop \(db\)$/m);
  for (const { state } of await controller.client.call(hosts.list, {})) assert.equal(state, 'up');
});

test('`host replace` gives the new host the tags of the old one and empties that; away, it is forgotten', async () => {
  await using env = await openDeskWithController({ hosts: 3 });
  const { desk, controller } = env;
  await controller.deployApp('shop', { web: { ports: [{ port: 8080 }] } });
  await desk.run(['-a', 'shop', 'scale', 'web=6']);
  await desk.run(['host', 'tag', 'host1', 'zone=a']);
  const moved = await desk.run(['host', 'replace', 'host1', 'host2', '--yes']);
  assert.equal(moved.code, 0, moved.stderr);
  assert.match(moved.stdout, /host2 has 1 tag of host1[^]*host1 is empty[^]*now on host1: flynn-host uninstall/);
  const second = await controller.client.call(hosts.get, { params: { host: 'host2' } });
  assert.deepEqual(second.tags, { zone: 'a' });

  await desk.run(['host', 'tag', 'host3', 'zone=b']);
  await controller.hosts[2]?.[Symbol.asyncDispose]();
  const replaced = await waitFor(
    async () => {
      const ran = await desk.run(['host', 'replace', 'host3', 'host2', '--yes']);
      return ran.code === 0 ? ran : undefined;
    },
    { what: 'host3 to be forgotten, once its jobs run elsewhere', deadlineMs: 60_000, intervalMs: 100 },
  );
  assert.match(replaced.stdout, /host3 is no longer of the cluster; host2 is in its place/);
  assert.equal((await desk.run(['host', 'show', 'host3'])).code, 1);
});
