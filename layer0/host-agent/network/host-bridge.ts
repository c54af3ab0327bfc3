/** The bridge of this host's containers, which the engine makes and keeps. */
import { systemClock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { raceAbort } from '@flynn/kit/retry';
import { forever } from '@flynn/kit/tasks';
import type { ContainerTable } from '../containers/table.ts';
import type { Engine } from '../engine/engine.ts';
import { untilThere } from '../hosts/record.ts';

const resyncMs = 30_000;

export type BridgeOptions = Readonly<{
  engine: Pick<Engine, 'ensureNetwork'>;
  bridge: Parameters<Engine['ensureNetwork']>[0];
  containers: Pick<ContainerTable, 'isCurrent'>;
  log: Logger;
}>;

/** An engine that hangs says nothing of its networks: what needs the bridge waits for it, and nothing else does. */
export class HostBridge {
  readonly #options: BridgeOptions;
  readonly #made = Promise.withResolvers<void>();
  #isThere = false;

  constructor(options: BridgeOptions) {
    this.#options = options;
  }

  /** Whether the engine has said so since the agent was started. */
  get isThere(): boolean {
    return this.#isThere;
  }

  async whenThere(signal: AbortSignal): Promise<void> {
    await raceAbort(this.#made.promise, signal);
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { engine, bridge, containers, log } = this.#options;
    await untilThere('the container engine', () => engine.ensureNetwork(bridge, { signal }), { signal, log });
    this.#isThere = true;
    this.#made.resolve();
    const keep = async (limit: AbortSignal): Promise<void> => {
      await systemClock.sleep(resyncMs, { signal: limit });
      if (containers.isCurrent) await engine.ensureNetwork(bridge, { signal: limit });
    };
    await forever('the network', keep, { signal, log });
  }
}
