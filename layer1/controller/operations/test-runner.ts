/** A runner that does what a test says, over the real API. */
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { operations } from './api.ts';
import { runners } from './api-runners.ts';
import type { Operation, Runner } from '../model.ts';
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
  /** Default 64. */
  slots?: number;
};

type Attempt = { id: string; attempt: number };
type Result = {
  id: string;
  state: 'complete' | 'failed' | 'cancelled';
  error?: string;
  output?: Record<string, string>;
};
type Declined = Attempt & { handover?: { told?: { stdout: number; stderr: number } } };
type Report = { begun?: Attempt[]; declined?: Declined[]; ended?: Result[] };

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
    const { client, labels = {}, isByIdOnly = false, slots = 64 } = this.#options;
    const body = { token: this.token, session, version: '0.0.0-test', labels, isByIdOnly, slots };
    return client.call(runners.register, { params: this.#params, body });
  }

  async assignments(slots = 1, options: { signal?: AbortSignal } = {}): Promise<Operation[]> {
    const body = { token: this.token, slots };
    return (await this.#options.client.call(operations.claim, { params: this.#params, body }, options)).operations;
  }

  async report(report: Report): Promise<void> {
    const body = { token: this.token, ...report };
    const { refused } = await this.#options.client.call(operations.report, { params: this.#params, body });
    const [first] = refused;
    if (first !== undefined) throw new FlynnError(first.code, first.message);
  }

  async acknowledge({ id, attempt = 0 }: Pick<Operation, 'id' | 'attempt'>): Promise<void> {
    await this.report({ begun: [{ id, attempt }] });
  }

  async decline({ id, attempt = 0 }: Pick<Operation, 'id' | 'attempt'>): Promise<void> {
    await this.report({ declined: [{ id, attempt }] });
  }

  /** The next one, begun. */
  async claim(options: { signal?: AbortSignal } = {}): Promise<Operation> {
    const [assigned] = await this.assignments(1, options);
    if (assigned === undefined) throw new FlynnError('not_found', 'there was nothing to claim');
    await this.acknowledge(assigned);
    return this.#options.client.call(operations.get, { params: { operation: assigned.id } });
  }

  async beat(operation: string, waitMs = 0): Promise<{ cancelled: boolean }> {
    const body = { token: this.token, waitMs };
    return this.#options.client.call(operations.heartbeat, { params: this.#of(operation), body });
  }

  append(operation: string, offset: number, lines: string[]): Promise<void> {
    const body = { token: this.token, offset, lines };
    return this.#options.client.call(operations.append, { params: this.#of(operation), body });
  }

  async finish(
    operation: string,
    state: 'complete' | 'failed' | 'cancelled',
    extra: { error?: string; output?: Record<string, string> } = {},
  ): Promise<Operation> {
    await this.report({ ended: [{ id: operation, state, ...extra }] });
    return this.#options.client.call(operations.get, { params: { operation } });
  }
}
