/** What became of operations, on its way to the controller: what is told at the same time goes together. */
import { operations } from '@flynn/controller/operations/api';
import type { Handover } from '@flynn/controller/model';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { retry } from '@flynn/kit/retry';
import type { Identity } from './registration.ts';

export type Attempt = { id: string; attempt: number };
export type Result = {
  id: string;
  state: 'complete' | 'failed' | 'cancelled';
  error?: string;
  output?: Record<string, string>;
};

type Kinds = { begun: Attempt; declined: Attempt; ended: Result };
type Report = { [Kind in keyof Kinds]: Kinds[Kind][] };
type Waiting = { report: Report; sent: PromiseWithResolvers<ReadonlyMap<string, FlynnError>> };

const maxAtOnce = 64;
const callMs = 10_000;

/** INVARIANT. Each is sent until it is known to have arrived or its own deadline has passed; the controller takes repeats. */
export class Reports {
  readonly #controller: HttpClient;
  readonly #identity: Pick<Identity, 'id' | 'token'>;
  #next: Waiting | undefined;

  constructor(controller: HttpClient, identity: Pick<Identity, 'id' | 'token'>) {
    this.#controller = controller;
    this.#identity = identity;
  }

  /** Throws `conflict` or `not_found` if the controller refuses it, and what keeps it from arriving. */
  async send<Kind extends keyof Kinds>(
    kind: Kind,
    item: Kinds[Kind],
    options: { deadlineMs: number; signal?: AbortSignal },
  ): Promise<void> {
    const what = 'telling the controller of an operation';
    const refused = await retry(() => this.#join(kind, item), { what, ...options });
    const refusal = refused.get(item.id);
    if (refusal !== undefined) throw refusal;
  }

  /**
   * What has begun goes to another runner. By itself: a controller of a version before refuses all that comes with it. Throws as
   * `send` does.
   */
  async giveBack(
    item: Attempt & { handover: Pick<Handover, 'told'> },
    options: { deadlineMs: number; signal: AbortSignal },
  ): Promise<void> {
    const report = { begun: [], declined: [item], ended: [] };
    const refused = await retry(() => this.#send(report), { what: 'giving an operation back', ...options });
    const refusal = refused.get(item.id);
    if (refusal !== undefined) throw refusal;
  }

  #join<Kind extends keyof Kinds>(kind: Kind, item: Kinds[Kind]): Promise<ReadonlyMap<string, FlynnError>> {
    const waiting = this.#next ?? this.#schedule();
    const items: Kinds[Kind][] = waiting.report[kind];
    items.push(item);
    if (items.length >= maxAtOnce) this.#next = undefined;
    return waiting.sent.promise;
  }

  #schedule(): Waiting {
    const waiting: Waiting = { report: { begun: [], declined: [], ended: [] }, sent: Promise.withResolvers() };
    this.#next = waiting;
    setImmediate(() => {
      if (this.#next === waiting) this.#next = undefined;
      this.#send(waiting.report).then(waiting.sent.resolve, (error: unknown) =>
        waiting.sent.reject(error instanceof FlynnError ? error : new FlynnError('internal', messageOf(error))),
      );
    });
    return waiting;
  }

  async #send(report: Report): Promise<ReadonlyMap<string, FlynnError>> {
    const { id, token } = this.#identity;
    const input = { params: { runner: id }, body: { token, ...report } };
    const { refused } = await this.#controller.call(operations.report, input, { timeoutMs: callMs });
    return new Map(refused.map((one) => [one.id, new FlynnError(one.code, one.message)]));
  }
}
