/** The log sink that discovery knows: every instance of the log aggregator gets every line. */
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { raceAbort } from '@flynn/kit/retry';
import type { LogLine } from '../api.ts';
import type { LogSink } from './pump.ts';
import { SinkConnection } from './sink-connection.ts';
import type { AgentAccess } from '../agent-client.ts';
import { type SinkInstance, sinkService } from './sink-protocol.ts';
import type { Replay } from './sink-protocol.ts';

/** An agent that stops tells the last lines, if that is quick. */
const finishMs = 2_000;

/** What the sink needs of discovery's registry. */
export interface InstanceSource {
  subscribe(
    service: string,
    options: { signal: AbortSignal },
  ): AsyncIterable<{ event: string; instance?: SinkInstance | undefined }>;
}

export class AggregatorSink implements LogSink {
  readonly #source: InstanceSource;
  readonly #access: AgentAccess;
  readonly #replay: Replay;
  readonly #log: Logger;
  readonly #connections = new Map<string, SinkConnection>();
  /** Lines that somebody wants to know the end of, and how many instances have still to say theirs. */
  readonly #awaited = new Map<LogLine, { onConfirmed: () => void; holders: number }>();
  /** What the last instance there was did not confirm: for the next. */
  #unconfirmed: readonly LogLine[] = [];
  /** Of connections that are closed. */
  #dropped = 0;
  #changed = Promise.withResolvers<void>();

  constructor(options: { source: InstanceSource; access: AgentAccess; replay: Replay; log: Logger }) {
    this.#source = options.source;
    this.#access = options.access;
    this.#replay = options.replay;
    this.#log = options.log;
  }

  /** Lines that an instance was too slow for, since the agent's start. */
  get dropped(): number {
    return [...this.#connections.values()].reduce((sum, { dropped }) => sum + dropped, this.#dropped);
  }

  /**
   * Waits while no instance has room for that app's lines. One that is slow while others are not loses its oldest and is told
   * how many.
   */
  async write(
    line: LogLine,
    { signal, onConfirmed }: { signal: AbortSignal; onConfirmed?: () => void },
  ): Promise<void> {
    while (![...this.#connections.values()].some((connection) => connection.hasRoomFor(line))) {
      await raceAbort(this.#changed.promise, signal);
    }
    if (onConfirmed !== undefined) this.#awaited.set(line, { onConfirmed, holders: this.#connections.size });
    for (const connection of this.#connections.values()) connection.push(line);
  }

  /** One that keeps it is enough: the others are told again what is new to them. Where all gave it up nobody waits for it. */
  #settle(lines: readonly LogLine[], how: 'confirmed' | 'dropped'): void {
    for (const line of lines) {
      const awaited = this.#awaited.get(line);
      if (awaited === undefined) continue;
      awaited.holders -= 1;
      if (how === 'dropped' && awaited.holders > 0) continue;
      this.#awaited.delete(line);
      awaited.onConfirmed();
    }
  }

  /** Keeps a connection to every instance. Resolves when the signal aborts and all are closed. */
  async run(signal: AbortSignal): Promise<void> {
    for await (const { event, instance } of this.#source.subscribe(sinkService, { signal })) {
      if (instance === undefined) continue;
      if (event === 'up' || event === 'update') await this.#connect(instance);
      if (event === 'down') await this.#disconnect(instance.id);
    }
    await Promise.all([...this.#connections.values()].map((connection) => connection.finish(finishMs)));
    this.#connections.clear();
  }

  async #connect(instance: SinkInstance): Promise<void> {
    if (this.#connections.get(instance.id)?.address === instance.address) return;
    await this.#disconnect(instance.id);
    const connection = new SinkConnection({
      instance,
      access: this.#access,
      replay: this.#replay,
      onRoom: () => this.#tell(),
      onSettled: (lines, how) => this.#settle(lines, how),
      log: this.#log.child({ sink: instance.id }),
      unconfirmed: this.#unconfirmed,
    });
    this.#unconfirmed = [];
    this.#connections.set(instance.id, connection);
    this.#tell();
  }

  async #disconnect(id: string): Promise<void> {
    const connection = this.#connections.get(id);
    this.#connections.delete(id);
    this.#dropped += connection?.dropped ?? 0;
    try {
      await connection?.[Symbol.asyncDispose]();
      if (connection === undefined) return;
      if (this.#connections.size === 0) this.#unconfirmed = connection.unconfirmed;
      else this.#settle(connection.unconfirmed, 'dropped');
    } catch (error) {
      this.#log.warn(`closing the connection to ${sinkService} ${id} failed: ${messageOf(error)}`);
    }
  }

  #tell(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}
