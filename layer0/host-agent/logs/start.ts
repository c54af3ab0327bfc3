/** The shipping of what jobs say, put together. */
import { join } from 'node:path';
import type { Logger } from '@flynn/kit/log';
import type { TaskGroup } from '@flynn/kit/tasks';
import type { AgentAccess } from '../agent-client.ts';
import type { ContainerTable } from '../containers/table.ts';
import type { Engine } from '../engine/engine.ts';
import { LogCursors } from './cursors.ts';
import { LogPump } from './pump.ts';
import { linesOf } from './read.ts';
import { AggregatorSink } from './sink.ts';
import type { InstanceSource } from './sink.ts';

const replayedLines = 1_000;

export type LogsDeps = Readonly<{
  stateDir: string;
  hostId: string;
  engine: Engine;
  containers: ContainerTable;
  registry: InstanceSource;
  access: AgentAccess;
  log: Logger;
}>;

export type Logs = Readonly<{
  pump: LogPump;
  /** Lines handed on and dropped since the agent's start. */
  counts: () => { shipped: number; dropped: number };
  /** Ships until the group ends. */
  start: (tasks: TaskGroup) => void;
}>;

/** Resolves when it knows how far the agent before this one was. */
export async function openLogs(deps: LogsDeps): Promise<Logs> {
  const { stateDir, hostId, engine, containers, registry, access, log } = deps;
  const cursors = new LogCursors({ path: join(stateDir, 'log-cursors.json'), log });
  await cursors.load();
  const sink = new AggregatorSink({ source: registry, access, replay, log });
  const pump = new LogPump({ engine, containers, cursors, sink, hostId, log });

  async function* replay(signal: AbortSignal) {
    for (const container of containers.all().filter(({ state }) => state === 'running')) {
      yield* linesOf({ engine, hostId }, container, {
        tail: replayedLines,
        signal,
        // What the pump has yet to hand over would be there twice, and before what is older.
        until: cursors.get(container.id).cursor,
      });
    }
  }

  return {
    pump,
    counts: () => ({ shipped: pump.shipped, dropped: sink.dropped }),
    start(tasks) {
      tasks.run('logs', async (signal) => {
        await Promise.all([sink.run(signal), pump.run(signal)]);
        // What the sink's last words confirmed.
        await cursors.save();
      });
    },
  };
}
