/** A log pump for tests, and the restart scenario that pretended and real engines share. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import type { LogLine } from '../api.ts';
import { collect } from '../engine/conformance.ts';
import { ContainerTable } from '../containers/table.ts';
import type { Engine } from '../engine/engine.ts';
import { jobOf } from '../host-fixture.ts';
import { LogCursors } from './cursors.ts';
import { LogPump } from './pump.ts';
import type { LogSink } from './pump.ts';
import { containerSpecOf } from '../containers/spec.ts';
import type { HostSettings } from '../containers/spec.ts';

export async function openPump(
  engine: Engine,
  dir: string,
  take: (line: LogLine, confirm: () => void) => Promise<void> | void,
  { isConfirmedByHand = false }: { isConfirmedByHand?: boolean } = {},
): Promise<{ pump: LogPump; containers: ContainerTable; stop: () => Promise<void> }> {
  const log = silentLogger();
  const tasks = new TaskGroup();
  const containers = new ContainerTable({ engine, log });
  const cursors = new LogCursors({ path: join(dir, 'cursors.json'), log });
  await cursors.load();
  const sink: LogSink = {
    async write(line, { onConfirmed = () => undefined }) {
      await take(line, onConfirmed);
      if (!isConfirmedByHand) onConfirmed();
    },
  };
  const pump = new LogPump({ engine, containers, cursors, sink, hostId: 'h1', log });
  tasks.run('containers', (signal) => containers.run(signal));
  tasks.run('pump', (signal) => pump.run(signal));
  return { pump, containers, stop: () => tasks.stop() };
}

/** Runs the script while the agent is restarted again and again; the sink has to have what the engine has. */
export async function runPumpTest(engine: Engine, host: HostSettings, imageRef: string, script: string): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-logs-'));
  const job = jobOf('chatty', { command: ['sh', '-c', script] });
  const id = await engine.create(containerSpecOf(job, imageRef, host));
  const taken: LogLine[] = [];
  try {
    await engine.start(id);
    for (;;) {
      const before = taken.length;
      const { pump, containers, stop } = await openPump(engine, dir, (line) => void taken.push(line));
      const isOver = () => containers.all().some((container) => container.id === id && pump.isShipped(container));
      await waitFor(() => taken.length >= before + 20 || isOver(), {
        what: 'lines',
        deadlineMs: 30_000,
        intervalMs: 1,
      });
      const isDone = isOver();
      await stop();
      if (isDone) break;
    }
    const written = await collect(engine.logs(id, { follow: false }));
    assert.ok(written.length > 100);
    assert.deepEqual(
      taken.map((line) => line.message),
      written.map((record) => record.message),
    );
    assert.equal(new Set(taken.map((line) => `${line.stream} ${line.timestamp}`)).size, taken.length);
  } finally {
    await engine.remove(id);
    await rm(dir, { recursive: true, force: true });
  }
}
