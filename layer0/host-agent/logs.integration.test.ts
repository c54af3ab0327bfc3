/** Logs of a real engine over restarts of the agent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { collect, endOf } from './conformance.ts';
import { openDocker, testImage } from './docker-fixture.ts';
import type { DockerFixture } from './docker-fixture.ts';
import { jobOf } from './host-fixture.ts';
import { LineAssembler } from './log-lines.ts';
import { runPumpTest } from './log-pump-fixture.ts';
import { containerSpecOf } from './spec.ts';
import type { HostSettings } from './spec.ts';

function settingsOf({ cluster, network }: DockerFixture): HostSettings {
  return { cluster, hostId: 'h1', externalAddress: '127.0.0.1', gateway: network.gateway, networkName: network.name };
}

test('over restarts of the agent no line is lost or repeated', { timeout: 120_000 }, async () => {
  const fixture = await openDocker(214);
  try {
    const script = 'i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); [ $((i%10)) = 0 ] && sleep 0.03; done';
    await runPumpTest(fixture.engine, settingsOf(fixture), testImage, script);
  } finally {
    await fixture.close();
  }
});

for (const tty of [false, true]) {
  test(`a line of 50,000 bytes is put together again (tty: ${tty})`, { timeout: 120_000 }, async () => {
    const fixture = await openDocker(214);
    const { engine } = fixture;
    try {
      const job = jobOf('long', { tty, command: ['sh', '-c', `perl -e 'print "x" x 50000, "\\nnext\\n"'`] });
      const id = await engine.create(containerSpecOf(job, testImage, settingsOf(fixture)));
      await engine.start(id);
      await endOf(engine, id);
      const assembler = new LineAssembler();
      const records = await collect(engine.logs(id, { follow: false }));
      const pieces = records.flatMap((record) => assembler.push(record));
      assert.deepEqual(
        pieces.map((piece) => piece.message.length),
        [10_000, 10_000, 10_000, 10_000, 10_000, 4],
      );
      assert.equal(new Set(pieces.map((piece) => piece.timestampNs + BigInt(piece.index))).size, 6);
    } finally {
      await fixture.close();
    }
  });
}
