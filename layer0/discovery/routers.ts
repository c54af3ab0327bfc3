/**
 * The routers' word. Any service announced as `router` that takes the route below with the cluster key passes requests on
 * to instances of other services, and says what it knows: whether it has a route, whether it sends requests to an instance,
 * whether it sends none any more, whether all that it sent are answered. Whoever is about to act on that asks all routers
 * there are, and waits for them, up to a deadline: nobody's stop or deployment depends on a router that cannot answer. What
 * they know is written nowhere.
 */
import { pause } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import type { LiveIdentity } from '@flynn/kit/identity';
import type { Logger } from '@flynn/kit/log';
import { serviceName } from '@flynn/kit/names';
import { type CallInput, type ResponseOf, type Route, defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import type { Instance } from './api.ts';
import { asPart, partUrl } from './parts.ts';

export const routerService = 'router';

export const wordSchema = z.object({
  /** Has each of these routes as it was at that revision, or later; without a revision, has it no more. */
  routes: z.array(z.object({ id: z.string(), revision: z.int().optional() })).default([]),
  /**
   * Sends requests to the instances `up`, and none any more to those `down`; of a service that no route leads to, always. Those
   * `ended` get none and have answered all they got; connections that are no requests (WebSockets, of TCP routes) are not waited
   * for.
   */
  services: z
    .array(
      z.object({
        service: serviceName,
        up: z.array(z.string()).default([]),
        down: z.array(z.string()).default([]),
        ended: z.array(z.string()).default([]),
      }),
    )
    .default([]),
});
export type Word = z.input<typeof wordSchema>;

export const wordRoute = defineRoute({
  method: 'POST',
  path: '/word',
  body: wordSchema.extend({
    /** So long it waits for it to become so. */
    waitMs: z.int().min(0).max(30_000).default(0),
  }),
  response: z.object({ isSo: z.boolean() }),
  summary: 'Whether this router knows of routes and instances what it is asked',
});

const askMs = 5_000;
const againMs = 50;

export class Routers implements AsyncDisposable {
  readonly #instances: (signal: AbortSignal) => Promise<readonly Instance[]>;
  readonly #key: string;
  readonly #identity: LiveIdentity | undefined;
  readonly #log: Logger;
  /** By their address. */
  readonly #urls = new Map<string, string>();
  readonly #clients = new Map<string, HttpClient>();

  constructor(options: {
    /** Of `routerService`. */
    instances: (signal: AbortSignal) => Promise<readonly Instance[]>;
    key: string;
    identity?: LiveIdentity | undefined;
    log: Logger;
  }) {
    this.#instances = options.instances;
    this.#key = options.key;
    this.#identity = options.identity;
    this.#log = options.log;
  }

  /**
   * Asks every router until it says so, those that come meanwhile too. Answers the addresses of those that did not by the
   * deadline, or why they cannot be found. One that does not know the question (of an earlier version) is not waited for; nor
   * is one that left.
   */
  async missing(word: Word, options: { deadlineMs: number; signal: AbortSignal }): Promise<string[]> {
    const { deadlineMs, signal } = options;
    const endMs = performance.now() + deadlineMs;
    const heard = new Set<string>();
    for (;;) {
      const known = await this.#knownOrWhy(signal);
      const leftMs = endMs - performance.now();
      signal.throwIfAborted();
      const pending = 'why' in known ? [] : known.instances.filter(({ id }) => !heard.has(id));
      if ('why' in known && leftMs <= 0) return [known.why];
      if (!('why' in known) && (pending.length === 0 || leftMs <= 0)) return pending.map(({ address }) => address);
      await Promise.all(
        pending.map(async ({ id, address }) => {
          if (await this.#isSo(address, word, Math.min(leftMs, askMs), signal)) heard.add(id);
        }),
      );
      if ('why' in known || pending.some(({ id }) => !heard.has(id))) await pause(againMs, signal);
    }
  }

  /**
   * Waits until no router has a request under way at these instances, and answers whether it is so: not if it takes longer than
   * the deadline. Routers that cannot be asked are not waited for, nor those of an earlier version.
   */
  async haveEnded(
    services: readonly { service: string; ended: string[] }[],
    { deadlineMs, signal }: { deadlineMs: number; signal: AbortSignal },
  ): Promise<boolean> {
    const endMs = performance.now() + deadlineMs;
    for (;;) {
      const leftMs = Math.floor(endMs - performance.now());
      if (leftMs <= 0) return false;
      const body = { services: [...services], waitMs: Math.min(leftMs, askMs) };
      const { answers } = await this.ask(wordRoute, { body }, { signal, timeoutMs: body.waitMs + 1_000 });
      if (answers.every(({ isSo }) => isSo)) return true;
      await pause(againMs, signal);
    }
  }

  /**
   * The same question to all at once, answered by address too. Those that cannot answer are told by address, with why; those
   * that are known to be `silent` are told again, and not asked.
   */
  async ask<R extends Route>(
    route: R,
    input: CallInput<R>,
    options: { signal: AbortSignal; timeoutMs?: number; silent?: ReadonlyMap<string, string> },
  ): Promise<{
    answers: ResponseOf<R>[];
    byAddress: ReadonlyMap<string, ResponseOf<R>>;
    silent: { address: string; why: string }[];
  }> {
    const { signal, timeoutMs = askMs } = options;
    const answers: ResponseOf<R>[] = [];
    const byAddress = new Map<string, ResponseOf<R>>();
    const silent: { address: string; why: string }[] = [];
    await Promise.all(
      (await this.#known(signal)).map(async ({ address }) => {
        const why = options.silent?.get(address);
        if (why !== undefined) {
          silent.push({ address, why });
          return;
        }
        try {
          const answer = await this.#clientOf(address).call(route, input, { signal, timeoutMs });
          answers.push(answer);
          byAddress.set(address, answer);
        } catch (error) {
          silent.push({ address, why: messageOf(error) });
        }
      }),
    );
    signal.throwIfAborted();
    return { answers, byAddress, silent };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#clients.values()].map((client) => client.close()));
    this.#clients.clear();
  }

  async #knownOrWhy(signal: AbortSignal): Promise<{ instances: readonly Instance[] } | { why: string }> {
    try {
      return { instances: await this.#known(signal) };
    } catch (error) {
      return { why: messageOf(error) };
    }
  }

  /** Clients of those that left are closed. */
  async #known(signal: AbortSignal): Promise<readonly Instance[]> {
    const instances = await this.#instances(signal);
    this.#urls.clear();
    for (const instance of instances) {
      // While one is replaced two share an address, and either may get a connection: what both understand counts.
      if (this.#urls.get(instance.address)?.startsWith('http:') === true) continue;
      this.#urls.set(instance.address, partUrl(instance, this.#identity));
    }
    const urls = new Set(this.#urls.values());
    for (const [url, client] of this.#clients) {
      if (urls.has(url)) continue;
      this.#clients.delete(url);
      await client.close();
    }
    return instances;
  }

  async #isSo(address: string, word: Word, leftMs: number, signal: AbortSignal): Promise<boolean> {
    const waitMs = Math.max(0, Math.floor(leftMs));
    try {
      const body = { ...word, waitMs };
      return (await this.#clientOf(address).call(wordRoute, { body }, { signal, timeoutMs: waitMs + 1_000 })).isSo;
    } catch (error) {
      if (hasCode(error, 'not_found', 'invalid')) return true;
      if (!signal.aborted) this.#log.debug({ err: error, router: address }, 'a router could not be asked');
      return false;
    }
  }

  #clientOf(address: string): HttpClient {
    const baseUrl = this.#urls.get(address) ?? partUrl({ address }, this.#identity);
    const known = this.#clients.get(baseUrl);
    if (known !== undefined) return known;
    const name = `the router at ${address}`;
    const client = new HttpClient({ baseUrl, key: this.#key, name, ...asPart(routerService, this.#identity) });
    this.#clients.set(baseUrl, client);
    return client;
  }
}
