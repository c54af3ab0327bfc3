/** Renewing leases at a member, over streams that are kept: opening one costs several times what a renewal does. */
import { FlynnError } from '@flynn/kit/errors';
import type { Etcd3 } from 'etcd3';

type Stream = Awaited<ReturnType<Etcd3['leaseClient']['leaseKeepAlive']>>;

export type Renewal = 'renewed' | 'gone';

/** `answer` is what is waited for; nothing while it is idle. */
type Line = { client: Etcd3; stream: Stream; answer?: PromiseWithResolvers<Renewal> };

/**
 * INVARIANTS. One renewal at a time on a stream: etcd answers them in turn, and one that waits for a leader would hold up the
 * next. A stream whose renewal was not answered is never used again. At most one is kept at each member.
 */
export class Renewals {
  readonly #lines = new Set<Line>();
  readonly #idle = new Map<Etcd3, Line>();

  /** Fails with `timeout` after so long, else with gRPC's errors. */
  async renew(client: Etcd3, id: string, { limitMs }: { limitMs: number }): Promise<Renewal> {
    const line = this.#idle.get(client) ?? (await this.#open(client));
    this.#idle.delete(client);
    const answer = Promise.withResolvers<Renewal>();
    line.answer = answer;
    const late = setTimeout(
      () => answer.reject(new FlynnError('timeout', `etcd did not renew lease ${id} within ${Math.round(limitMs)} ms`)),
      limitMs,
    );
    try {
      line.stream.write({ ID: id });
      const renewal = await answer.promise;
      if (this.#lines.has(line) && !this.#idle.has(client)) this.#idle.set(client, line);
      // Its end is the server's to answer: cancelling would be quicker, but costs an error with its stack each time.
      else line.stream.end();
      return renewal;
    } catch (error) {
      this.#cancel(line);
      throw error;
    } finally {
      clearTimeout(late);
      delete line.answer;
    }
  }

  close(): void {
    for (const line of this.#lines) {
      line.answer?.reject(new FlynnError('cancelled', 'the store client was closed'));
      this.#cancel(line);
    }
  }

  async #open(client: Etcd3): Promise<Line> {
    const stream = await client.leaseClient.leaseKeepAlive();
    const line: Line = { client, stream };
    this.#lines.add(line);
    stream.on('data', ({ TTL }) => line.answer?.resolve(Number(TTL) > 0 ? 'renewed' : 'gone'));
    const broke = (error: Error): void => {
      this.#forget(line);
      line.answer?.reject(error);
    };
    stream.on('error', broke);
    stream.on('end', () => broke(new FlynnError('unavailable', 'etcd ended the renewal of leases')));
    return line;
  }

  #cancel(line: Line): void {
    if (!this.#forget(line)) return;
    // Ended first: etcd3 takes a cancelled stream that is still writable for a failure and drops its connections.
    line.stream.end();
    line.stream.cancel();
  }

  #forget(line: Line): boolean {
    if (this.#idle.get(line.client) === line) this.#idle.delete(line.client);
    return this.#lines.delete(line);
  }
}
