import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shortId } from '@flynn/kit/ids';
import { testLabels } from '@flynn/kit/testing-label';
import { endOf } from '../engine/conformance.ts';
import { openDocker, testImage } from './fixture.ts';

void test('who does not run as root writes to a new volume, which is measured, and one that was written to stays whose it is', async () => {
  const fixture = await openDocker();
  const { engine, cluster, network } = fixture;
  const runs = async (user: string, script: string): Promise<number | undefined> => {
    const id = await engine.create({
      name: `flynn-owner-${shortId()}`,
      labels: testLabels,
      imageRef: await engine.ensureImage({ name: testImage }),
      hostname: 'owner',
      command: ['sh', '-c', script],
      user,
      env: { PATH: '/usr/bin:/bin' },
      network: { type: 'bridge', name: network.name, dns: [] },
      volumes: [{ name: volume, path: '/var/lib/of-nobody/data' }],
      tty: false,
      stdin: false,
      limits: { memoryBytes: 64 * 2 ** 20, cpuMillis: 100, pids: 50, files: 100 },
    });
    await engine.start(id);
    const { exitCode } = await endOf(engine, id);
    await engine.remove(id);
    return exitCode;
  };
  const volume = `flynn-${cluster}.${shortId()}`;
  try {
    await engine.ensureVolume(volume);
    const owner = '/var/lib/of-nobody/data';
    assert.equal(await runs('5000', `echo kept > ${owner}/x`), 0, 'nobody but root could write to it');
    assert.equal(
      await runs('5001', `grep -q kept ${owner}/x && ! touch ${owner}/y 2>/dev/null`),
      0,
      'it changed hands',
    );
    assert.equal(await runs('5000', `rm ${owner}/x && test "$(stat -c %u ${owner})" = 5000`), 0);
    // Of somebody by now, though there is nothing in it again.
    assert.equal(await runs('nobody', `! touch ${owner}/y 2>/dev/null`), 0);
    await engine.removeVolume(volume);
    await engine.ensureVolume(volume);
    const megabytes = 3;
    const script = `touch ${owner}/x && head -c ${megabytes}M /dev/zero > ${owner}/y`;
    assert.equal(await runs('nobody', script), 0, 'a user has a name, too');
    const bytes = (await engine.volumeBytes(volume)) ?? 0;
    assert.ok(bytes >= megabytes * 2 ** 20 && bytes < (megabytes + 1) * 2 ** 20, String(bytes));
  } finally {
    await fixture.close();
  }
});
