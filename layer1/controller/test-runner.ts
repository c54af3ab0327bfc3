/** A runner that does what a test says, over the real API. */
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { operations } from './api.ts';
import { runners } from './api-runners.ts';
import type { Operation, Runner } from './model.ts';
import { platformRunnerToken } from './runner-token.ts';

export type TestRunnerOptions = {
  client: HttpClient;
  id: string;
  /** Makes it one of the platform. */
  clusterKey?: string;
  token?: string;
  session?: string;
  labels?: Record<string, string>;
  isByIdOnly?: boolean;
};

export class TestRunner {
  readonly id: string;
  readonly token: string;
  readonly #options: TestRunnerOptions;

  constructor(options: TestRunnerOptions) {
    this.#options = options;
    this.id = options.id;
    this.token = options.token ?? platformRunnerToken(options.clusterKey ?? '', options.id);
  }

  get #params() {
    return { runner: this.id };
  }

  #of(operation: string) {
    return { runner: this.id, operation };
  }

  register(session = this.#options.session ?? 'one'): Promise<Runner> {
    const { client, labels = {}, isByIdOnly = false } = this.#options;
    const body = { token: this.token, session, version: '0.0.0-test', labels, isByIdOnly };
    return client.call(runners.register, { params: this.#params, body });
  }

  async assignments(slots = 1, options: { signal?: AbortSignal } = {}): Promise<Operation[]> {
    const body = { token: this.token, slots };
    return (await this.#options.client.call(operations.claim, { params: this.#params, body }, options)).operations;
  }

  acknowledge({ id, attempt = 0 }: Operation): Promise<Operation> {
    const body = { token: this.token, attempt };
    return this.#options.client.call(operations.acknowledge, { params: this.#of(id), body });
  }

  decline({ id, attempt = 0 }: Operation): Promise<Operation> {
    const body = { token: this.token, attempt };
    return this.#options.client.call(operations.decline, { params: this.#of(id), body });
  }

  /** The next one, begun. */
  async claim(options: { signal?: AbortSignal } = {}): Promise<Operation> {
    const [assigned] = await this.assignments(1, options);
    if (assigned === undefined) throw new FlynnError('not_found', 'there was nothing to claim');
    return this.acknowledge(assigned);
  }

  async beat(operation: string, waitMs = 0): Promise<{ cancelled: boolean }> {
    const body = { token: this.token, waitMs };
    return this.#options.client.call(operations.heartbeat, { params: this.#of(operation), body });
  }

  append(operation: string, offset: number, lines: string[]): Promise<void> {
    const body = { token: this.token, offset, lines };
    return this.#options.client.call(operations.append, { params: this.#of(operation), body });
  }

  finish(
    operation: string,
    state: 'complete' | 'failed' | 'cancelled',
    extra: { error?: string; output?: Record<string, string> } = {},
  ): Promise<Operation> {
    const body = { token: this.token, state, ...extra };
    return this.#options.client.call(operations.finish, { params: this.#of(operation), body });
  }
}
