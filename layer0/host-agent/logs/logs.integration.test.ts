/** Logs of a real engine over restarts of the agent. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import Docker from 'dockerode';
import { logLineSchema } from '../api.ts';
import { collect, endOf } from '../engine/conformance.ts';
import { openDocker, testImage } from '../docker/fixture.ts';
import type { DockerFixture } from '../docker/fixture.ts';
import { jobOf } from '../host-fixture.ts';
import { LineAssembler } from './lines.ts';
import { runPumpTest } from './pump-fixture.ts';
import { containerSpecOf } from '../containers/spec.ts';
import type { HostSettings } from '../containers/spec.ts';

function settingsOf({ cluster, network }: DockerFixture): HostSettings {
  return { cluster, hostId: 'h1', externalAddress: '127.0.0.1', gateway: network.gateway, networkName: network.name };
}

test('over restarts of the agent no line is lost or repeated', { timeout: 120_000 }, async () => {
  const fixture = await openDocker();
  try {
    const script = 'i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); [ $((i%10)) = 0 ] && sleep 0.03; done';
    await runPumpTest(fixture.engine, settingsOf(fixture), testImage, script);
  } finally {
    await fixture.close();
  }
});

for (const tty of [false, true]) {
  test(`a line of 50,000 bytes is put together again (tty: ${tty})`, { timeout: 120_000 }, async () => {
    const fixture = await openDocker();
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

for (const [what, damage] of [
  ['zeros', '\0'.repeat(100_000)],
  ['half a record', '{"log":"bro'],
] as const) {
  test(`a log that a power cut left ending in ${what} goes on behind its last line`, { timeout: 120_000 }, async () => {
    const fixture = await openDocker();
    const { engine } = fixture;
    try {
      const job = jobOf('cut', { command: ['sh', '-c', 'echo one; echo two'] });
      const id = await engine.create(containerSpecOf(job, testImage, settingsOf(fixture)));
      await engine.start(id);
      await endOf(engine, id);
      const { LogPath } = await new Docker({ socketPath: '/var/run/docker.sock' }).getContainer(id).inspect();
      appendFileSync(LogPath, damage);
      await engine.start(id);
      await endOf(engine, id);
      const records = await collect(engine.logs(id, { follow: false }));
      assert.deepEqual(
        records.map(({ message }) => message),
        ['one', 'two', 'one', 'two'],
      );
    } finally {
      await fixture.close();
    }
  });
}

test(
  'over kills of the agent no line is lost or torn, and what comes twice is known by its identity',
  {
    timeout: 120_000,
  },
  async () => {
    const fixture = await openDocker();
    const { engine, cluster } = fixture;
    const dir = await mkdtemp(join(tmpdir(), 'flynn-killed-'));
    const count = 2_000;
    const textOf = (name: string) => (existsSync(join(dir, name)) ? readFileSync(join(dir, name), 'utf8') : '');
    const read = () => textOf('lines').split('\n');
    try {
      // After each quarter it waits for another kill: an agent that takes long to start does not find all that there is.
      const line = 'print "number $i ", "x" x ($i % 300), "\\n"';
      const pauses =
        'if ($i % 50 == 0) { do { select(undef,undef,undef,0.15) } while ($kills < int($i / 500) && $i < 2000) }';
      const script = `exec perl -e '$|=1; $SIG{USR1}=sub { $kills++ }; for $i (1..${count}) { ${line}; ${pauses} }'`;
      const job = jobOf('fast', { command: ['sh', '-c', script] });
      const id = await engine.create(containerSpecOf(job, testImage, settingsOf(fixture)));
      await engine.start(id);
      let kills = 0;
      for (let isDone = false; !isDone; kills += 1) {
        const before = read().length;
        const cursorsBefore = textOf('cursors.json');
        const program = join(import.meta.dirname, 'pump-process.ts');
        const agent = spawn(process.execPath, [program, cluster, dir], { stdio: ['ignore', 'ignore', 'inherit'] });
        const exited = once(agent, 'exit');
        isDone = await waitFor(
          () => {
            const lines = read();
            const last = lines.at(-2) ?? '';
            if (last.includes(`number ${count} `) && last.endsWith('}')) return { isDone: true };
            // Each gets further than the one before: what was noted every few seconds is where the next one begins.
            return lines.length > before + 100 && textOf('cursors.json') !== cursorsBefore && { isDone: false };
          },
          { what: 'lines', deadlineMs: 60_000, intervalMs: 10 },
        ).then((answer) => answer.isDone);
        agent.kill('SIGKILL');
        await exited;
        // It may have written its last line, and ended.
        await engine.signal(id, 'SIGUSR1').catch((error: unknown) => assert.ok(hasCode(error, 'conflict')));
      }
      assert.ok(kills >= 3, `${kills} kills`);
      const seen = new Map<string, string>();
      const texts = read();
      for (const [index, text] of texts.entries()) {
        const isHalf = (texts[index + 1] ?? '') === '' && !text.endsWith('}');
        if (text === '' || isHalf) continue;
        const { stream, timestamp, message } = logLineSchema.parse(JSON.parse(text));
        seen.set(`${stream} ${timestamp}`, message);
      }
      const wanted = Array.from({ length: count }, (_, i) => `number ${i + 1} ${'x'.repeat((i + 1) % 300)}`);
      assert.deepEqual([...seen.values()], wanted);
    } finally {
      await fixture.close();
      await rm(dir, { recursive: true, force: true });
    }
  },
);
