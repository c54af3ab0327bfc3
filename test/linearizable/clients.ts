/** Clients that change one value and one set of names through every door to the controllers, and write down what they saw. */
import { teams } from '@flynn/controller/access/api';
import { apps } from '@flynn/controller/api';
import { createControllerClient } from '@flynn/controller/client';
import { generic } from '@flynn/controller/generic/api';
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { TaskGroup } from '@flynn/kit/tasks';
import { type Call, linearize } from './checker.ts';
import {
  type RegisterInput,
  type RegisterOutput,
  type SetInput,
  type SetOutput,
  register,
  setOfNames,
} from './models.ts';

const key = 'register';
const callMs = 8_000;
const kind = { group: 'flynn', version: 'v1', kind: 'app' } as const;

export type ClientsOptions = Readonly<{
  /** Base URLs, each of a way to the controllers: a client has its own, and takes the next when it gets no answer. */
  doors: readonly string[];
  /** A token of an admin. */
  token: string;
  /** The controller's host name where the doors are a router's. */
  domain?: string;
  /** Whose metadata has the value, and by which the names begin. It has to be there and nobody else's to change. */
  app: string;
  count: number;
  pauseMs: number;
  random?: () => number;
}>;

type Door = { client: HttpClient; headers: Record<string, string> };

/** They go on from the start until they are stopped. */
export class Clients implements AsyncDisposable {
  readonly #options: ClientsOptions;
  readonly #random: () => number;
  readonly #tasks = new TaskGroup();
  readonly #doors: readonly Door[];
  readonly #values: Call<RegisterInput, RegisterOutput>[] = [];
  readonly #names: Call<SetInput, SetOutput>[] = [];
  #isEnding = false;
  #lastValue = 0;

  constructor(options: ClientsOptions) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
    const headers: Record<string, string> = options.domain === undefined ? {} : { host: options.domain };
    this.#doors = options.doors.map((baseUrl) => ({
      client: createControllerClient({ baseUrl, key: options.token }),
      headers,
    }));
    for (let place = 0; place < options.count; place += 1) {
      this.#tasks.run(`client ${place}`, (signal) => this.#live(place, signal));
    }
  }

  /** Each ends the call it is in. */
  async stop(): Promise<void> {
    this.#isEnding = true;
    await this.#tasks.done();
  }

  /** How many calls had an answer, and how many had none. */
  get counts(): { answered: number; unknown: number } {
    const all = [...this.#values, ...this.#names];
    const answered = all.filter(({ output }) => output !== undefined).length;
    return { answered, unknown: all.length - answered };
  }

  /** The longest time in which no change was answered. */
  get writeOutageMs(): number {
    const changes = [
      ...this.#values.filter(({ input }) => input.kind !== 'read'),
      ...this.#names.filter(({ input }) => input.kind !== 'list'),
    ];
    const ends = changes
      .flatMap(({ output, endedMs }) => (output === undefined ? [] : [endedMs]))
      .sort((a, b) => a - b);
    return Math.max(0, ...ends.slice(1).map((endMs, at) => endMs - (ends[at] ?? endMs)));
  }

  /** What of it cannot have happened one after the other, in words; nothing if all of it can. */
  violations(): string[] {
    const value = linearize(register(0), withoutUnseen(this.#values));
    const names = linearize(setOfNames, withoutUnlisted(this.#names));
    return [
      ...(value.isLinearizable ? [] : [`the value: ${textOf(value.order, value.stuck)}`]),
      ...(names.isLinearizable ? [] : [`the names: ${textOf(names.order, names.stuck)}`]),
    ];
  }

  async #live(place: number, signal: AbortSignal): Promise<void> {
    const client = `client ${place}`;
    const { pauseMs } = this.#options;
    const mine: string[] = [];
    let at = place;
    while (!this.#isEnding) {
      const door = this.#doors[at % this.#doors.length];
      if (door === undefined) throw new FlynnError('invalid', 'clients need a door');
      const isAnswered = await this.#act(client, door, mine);
      if (!isAnswered) at += 1;
      await systemClock.sleep(pauseMs * (0.5 + this.#random()), { signal });
    }
  }

  async #act(client: string, door: Door, mine: string[]): Promise<boolean> {
    const choice = this.#random();
    if (choice < 0.25) return this.#record(this.#values, client, { kind: 'read' }, () => this.#read(door));
    if (choice < 0.4) {
      const value = this.#newValue();
      return this.#record(this.#values, client, { kind: 'write', value }, () => this.#write(door, value));
    }
    if (choice < 0.6) return this.#swap(client, door);
    if (choice < 0.8) return this.#record(this.#names, client, { kind: 'list' }, () => this.#list(door));
    const [oldest] = mine;
    if (oldest === undefined || choice < 0.9) {
      const name = `${this.#options.app}-${this.#newValue()}`;
      const isAdded = await this.#record(this.#names, client, { kind: 'add', name }, () => this.#add(door, name));
      if (isAdded) mine.push(name);
      return isAdded;
    }
    mine.shift();
    return this.#record(this.#names, client, { kind: 'remove', name: oldest }, () => this.#remove(door, oldest));
  }

  #newValue(): number {
    this.#lastValue += 1;
    return this.#lastValue;
  }

  async #read({ client, headers }: Door): Promise<RegisterOutput> {
    const { meta } = await client.call(
      apps.get,
      { params: { app: this.#options.app } },
      { headers, timeoutMs: callMs },
    );
    return { value: Number(meta[key] ?? 0) };
  }

  async #write({ client, headers }: Door, value: number): Promise<RegisterOutput> {
    const input = { params: { app: this.#options.app }, body: { meta: { [key]: String(value) } } };
    await client.call(apps.update, input, { headers, timeoutMs: callMs });
    return { isDone: true };
  }

  /** Over a revision: what was there then is there until it is swapped, or it is not swapped. */
  async #swap(client: string, door: Door): Promise<boolean> {
    const params = { ...kind, name: this.#options.app };
    const options = { headers: door.headers, timeoutMs: callMs };
    // This look is no call of the history, and changes nothing: where it fails the next door is taken.
    const found = await door.client.call(generic.get, { params }, options).catch(() => undefined);
    if (found === undefined) return false;
    const { meta } = found.spec;
    const expected = Number(typeof meta === 'object' && meta !== null && key in meta ? meta[key] : 0);
    const value = this.#newValue();
    const { revision } = found.metadata;
    return this.#record(this.#values, client, { kind: 'swap', expected, value }, async () => {
      const body = { spec: { meta: { [key]: String(value) } }, metadata: { revision } };
      await door.client.call(generic.patch, { params, body }, options);
      return { isDone: true };
    });
  }

  async #list({ client, headers }: Door): Promise<SetOutput> {
    const found = await client.call(teams.list, {}, { headers, timeoutMs: callMs });
    return found.map(({ name }) => name).filter((name) => name.startsWith(`${this.#options.app}-`));
  }

  async #add({ client, headers }: Door, name: string): Promise<SetOutput> {
    await client.call(teams.create, { body: { name } }, { headers, timeoutMs: callMs });
    return 'done';
  }

  async #remove({ client, headers }: Door, name: string): Promise<SetOutput> {
    await client.call(teams.remove, { params: { team: name } }, { headers, timeoutMs: callMs });
    return 'done';
  }

  /** Whether there was an answer. What the controller refused, nobody may ever see; of what failed nobody knows. */
  async #record<Input extends { kind: string }, Output>(
    calls: Call<Input, Output>[],
    client: string,
    input: Input,
    call: () => Promise<Output>,
  ): Promise<boolean> {
    const startedMs = performance.now();
    const write = (output: Output | undefined): void => {
      calls.push({ client, input, output, startedMs, endedMs: performance.now() });
    };
    try {
      write(await call());
      return true;
    } catch (error) {
      if (hasCode(error, 'conflict', 'not_found', 'invalid')) return true;
      if (input.kind !== 'read' && input.kind !== 'list') write(undefined);
      return false;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tasks.stop();
    for (const { client } of this.#doors) await client.close();
  }
}

/**
 * Without writes whose outcome nobody knows and whose value nobody saw: every value is written once, so an order with them
 * is one without them too.
 */
function withoutUnseen(calls: readonly Call<RegisterInput, RegisterOutput>[]): Call<RegisterInput, RegisterOutput>[] {
  const seen = new Set<number>();
  for (const { input, output } of calls) {
    if (output !== undefined && 'value' in output) seen.add(output.value);
    if (input.kind === 'swap') seen.add(input.expected);
  }
  return calls.filter(({ input, output }) => output !== undefined || (input.kind !== 'read' && seen.has(input.value)));
}

/** The same of names nobody saw: not in a list, and not by being told that they are there. */
export function withoutUnlisted(calls: readonly Call<SetInput, SetOutput>[]): Call<SetInput, SetOutput>[] {
  const known = new Set(
    calls.flatMap(({ input, output }) => {
      if (output === undefined || input.kind === 'list') return output === undefined || output === 'done' ? [] : output;
      return [input.name];
    }),
  );
  return calls.filter(({ input, output }) => output !== undefined || (input.kind !== 'list' && known.has(input.name)));
}

function textOf(order: readonly Call<unknown, unknown>[], stuck: readonly Call<unknown, unknown>[]): string {
  const told = (calls: readonly Call<unknown, unknown>[]): string =>
    calls.map((call) => JSON.stringify(call)).join('\n  ');
  return `after\n  ${told(order.slice(-10))}\nnone of these can be next:\n  ${told(stuck)}`;
}
