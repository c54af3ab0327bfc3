/**
 * A service of the platform that is killed again and again, wherever it runs, for a while. Its agent starts it later each time:
 * as long as it is killed within seconds of its start, nobody can count on being served by it.
 */
import { setTimeout } from 'node:timers/promises';
import type { TestCluster } from '../test-cluster.ts';

const everyMs = 3_000;

export class Disturbance implements AsyncDisposable {
  readonly #cluster: TestCluster;
  readonly #app: string;
  readonly #type: string;
  readonly #untilMs: number;
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;
  #kills = 0;

  constructor(cluster: TestCluster, app: string, { type, forMs }: { type: string; forMs: number }) {
    this.#cluster = cluster;
    this.#app = app;
    this.#type = type;
    this.#untilMs = performance.now() + forMs;
    this.#running = this.#killAll();
  }

  get kills(): number {
    return this.#kills;
  }

  get isOver(): boolean {
    return this.#ending.signal.aborted || performance.now() >= this.#untilMs;
  }

  async #killAll(): Promise<void> {
    while (!this.isOver) {
      for (const host of this.#cluster.hosts) {
        for (const container of await this.#cluster.containers(this.#app, this.#type, host)) {
          const docker = ['docker', '-H', `unix://${host.dockerSocket}`] as const;
          const { code } = await this.#cluster.exec([...docker, 'kill', container], { host, code: 'any' });
          // It may have ended in between.
          if (code === 0) this.#kills += 1;
        }
      }
      await setTimeout(everyMs, undefined, { signal: this.#ending.signal }).catch(() => {
        // Awake early: the loop ends.
      });
    }
  }

  /** Nothing is killed any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }
}
