/**
 * What of etcd a job with a keyspace is let through to. Nothing of a request is passed on: each is read, judged, and written
 * anew. Who asks is known by address and token, both; etcd itself sees the host's agent.
 */
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { FlynnError } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type { EtcdGateway } from '@flynn/store/etcd-gateway';
import { z } from 'zod';
import type { Container } from '../engine/engine.ts';
import * as confinement from './confinement.ts';
import { keyspacePrefix } from './keyspace.ts';
import type { LeaseState } from './leases.ts';
import { Refusal } from './refusal.ts';
import { type Visitor, Visitors } from './visitors.ts';
import * as wire from './wire.ts';

export type DoorDeps = Readonly<{
  gateway: Pick<EtcdGateway, 'ask'>;
  containers: () => readonly Container[];
  /** In milliseconds, of a clock that nobody sets. */
  now: () => number;
}>;

export type DoorRequest = Readonly<{
  method: string;
  path: string;
  /** Where it comes from. */
  address: string;
  /** Where it was asked: http://100.100.0.1:1116 */
  url: string;
  /** As drivers of etcd send it: the bare token. */
  authorization: string | undefined;
  /** As JSON; asked for once it is known whose it is. */
  readBody: () => Promise<unknown>;
  /** Aborts when the client has gone. */
  signal: AbortSignal;
}>;

/** Text is whole JSON. Disposed of when the body is out, or nobody takes it. */
export type DoorAnswer = Disposable & Said;

type Said = Readonly<{ status: number; body: string | Readable }>;
type Call = Readonly<{ visitor: Visitor; prefix: string; url: string; body: unknown; signal: AbortSignal }>;

type Endpoint = Readonly<{
  /** What has to be shown; where the token is not known `again` is a refusal of another kind. */
  shows: 'nothing' | 'password' | 'token' | 'token, or again';
  takes: 'asks' | 'watches';
  run: (call: Call) => Promise<Said>;
}>;

/** From which on Patroni takes the paths and the tokens that are served here. */
const version = JSON.stringify({ etcdserver: '3.5.0', etcdcluster: '3.5.0' });

/** Until an answer is out. Patroni itself waits for less. */
const askMs = 10_000;

export class Door {
  readonly #deps: DoorDeps;
  readonly #visitors: Visitors;
  readonly #endpoints: ReadonlyMap<string, Endpoint>;

  constructor(deps: DoorDeps) {
    this.#deps = deps;
    const look = (keyspace: string, id: string, signal: AbortSignal) => this.#look(keyspace, id, signal);
    this.#visitors = new Visitors(deps.containers, { look, now: deps.now });
    const { confineRange, confinePut, confineDeleteRange, confineTxn, confineWatch } = confinement;
    const reads = { isRepeatable: true };
    const writes = { isRepeatable: false };
    this.#endpoints = new Map<string, Endpoint>([
      ['/v3/cluster/member/list', { shows: 'nothing', takes: 'asks', run: async (call) => membersOf(call) }],
      ['/v3/auth/authenticate', { shows: 'password', takes: 'asks', run: async (call) => authenticate(call) }],
      ['/v3/kv/range', this.#confined('/v3/kv/range', confineRange, reads)],
      ['/v3/kv/put', this.#confined('/v3/kv/put', confinePut, writes)],
      ['/v3/kv/deleterange', this.#confined('/v3/kv/deleterange', confineDeleteRange, writes)],
      ['/v3/kv/txn', this.#confined('/v3/kv/txn', confineTxn, writes)],
      ['/v3/watch', this.#confined('/v3/watch', confineWatch, { ...reads, isLasting: true })],
      ['/v3/lease/grant', { shows: 'token', takes: 'asks', run: (call) => this.#grant(call) }],
      // Patroni does not authenticate anew for this one, as etcd asks nobody for a token here. With `again` it asks again, with
      // the token that its watch has got by then, instead of giving its leadership up because an agent was started anew.
      ['/v3/lease/keepalive', { shows: 'token, or again', takes: 'asks', run: (call) => this.#keepAlive(call) }],
    ]);
  }

  /** Containers are not what they were: who has gone is let go of, and its watches end. */
  containersChanged(): void {
    this.#visitors.sweep();
  }

  /** Throws a Refusal, or what asking etcd threw. */
  async answer({ method, path, url, address, authorization, readBody, signal }: DoorRequest): Promise<DoorAnswer> {
    const visitor = this.#visitors.at(address);
    if (visitor === undefined) {
      throw new Refusal('outside', `${address} is no running job of this host whose template has a keyspace`);
    }
    if (method === 'GET' && path === '/version') return lasting({ status: 200, body: version });
    const endpoint = this.#endpoints.get(path);
    if (method !== 'POST' || endpoint === undefined) {
      throw new Refusal('path', `a keyspace has nothing at ${method} ${path}`);
    }
    if (endpoint.shows.startsWith('token')) checkToken(visitor, authorization, endpoint.shows);
    const place = visitor.enter(endpoint.takes);
    try {
      const until = AbortSignal.any([signal, visitor.gone]);
      const said = await endpoint.run({
        visitor,
        prefix: keyspacePrefix(visitor.keyspace.name),
        url,
        body: await readBody(),
        signal: endpoint.takes === 'watches' ? until : withDeadline(askMs, until),
      });
      return lasting(said, place);
    } catch (error) {
      place[Symbol.dispose]();
      throw error;
    }
  }

  #confined(
    path: string,
    confine: confinement.Confine,
    { isRepeatable, isLasting = false }: { isRepeatable: boolean; isLasting?: boolean },
  ): Endpoint {
    const run = async ({ visitor, prefix, body, signal }: Call): Promise<Said> => {
      const confined = confine(body, prefix);
      for (const lease of confined.leases) {
        if (!(await visitor.leases.has(lease, signal))) throw noLease(lease);
      }
      await visitor.allowance.take(confined, () => this.#count(prefix, signal));
      return await this.#deps.gateway.ask({ path, body: confined.body, isRepeatable, isLasting, signal });
    };
    return { shows: 'token', takes: isLasting ? 'watches' : 'asks', run };
  }

  async #grant({ visitor, body, signal }: Call): Promise<Said> {
    const asked = confinement.parse(wire.grantSchema, body);
    visitor.leases.admit();
    const askedMs = this.#deps.now();
    const said = await this.#whole('/v3/lease/grant', asked, signal);
    if (said.status !== 200) return said;
    const { ID, TTL } = parseAnswer(wire.grantedSchema, said.body);
    visitor.leases.note(ID, TTL, askedMs);
    return said;
  }

  /** One that is not the job's is told like one that has ended: without a TTL, whereupon Patroni makes another. */
  async #keepAlive({ visitor, body, signal }: Call): Promise<Said> {
    const asked = confinement.parse(wire.keepaliveSchema, body);
    const { leases } = visitor;
    if (!(await leases.has(asked.ID, signal))) {
      return { status: 200, body: JSON.stringify({ result: { header: {}, ID: asked.ID } }) };
    }
    const askedMs = this.#deps.now();
    const said = await this.#whole('/v3/lease/keepalive', asked, signal);
    // While members of etcd elect a leader one may say that it is none: to Patroni that would be the end of its leadership.
    if (said.status >= 500) throw new Refusal('away', `etcd keeps no lease alive just now: ${said.body.slice(0, 300)}`);
    if (said.status !== 200) return said;
    const { TTL } = parseAnswer(wire.keptAliveSchema, said.body).result;
    if (TTL > 0) leases.note(asked.ID, TTL, askedMs);
    else leases.forget(asked.ID);
    return said;
  }

  async #look(keyspace: string, id: string, signal: AbortSignal): Promise<LeaseState> {
    const answer = await this.#ask('/v3/lease/timetolive', { ID: id, keys: true }, wire.timeToLiveSchema, signal);
    const { TTL, keys } = answer;
    return {
      ttlSeconds: TTL,
      keys: keys.length,
      areKeysInside: confinement.areInside(keys, keyspacePrefix(keyspace)),
    };
  }

  async #count(prefix: string, signal: AbortSignal): Promise<number> {
    const all = { ...confinement.wholeOf(prefix), count_only: true };
    return (await this.#ask('/v3/kv/range', all, wire.countedSchema, signal)).count;
  }

  /** What the door itself wants to know. */
  async #ask<T>(path: string, body: object, schema: z.ZodType<T>, signal: AbortSignal): Promise<T> {
    const said = await this.#whole(path, body, signal);
    if (said.status === 200) return parseAnswer(schema, said.body);
    throw new FlynnError('unavailable', `etcd refused ${path} with ${said.status}: ${said.body.slice(0, 300)}`);
  }

  /** Of what is small, and may be done twice. */
  async #whole(path: string, body: object, signal: AbortSignal): Promise<{ status: number; body: string }> {
    const answer = await this.#deps.gateway.ask({ path, body, isRepeatable: true, signal });
    return { status: answer.status, body: await text(answer.body) };
  }
}

/** Drivers ask where else they may ask. Of the members of the store jobs know none. */
function membersOf({ url }: Call): Said {
  return { status: 200, body: JSON.stringify({ header: {}, members: [{ name: 'door', clientURLs: [url] }] }) };
}

function authenticate({ visitor, body }: Call): Said {
  const token = visitor.tokens.issue(confinement.parse(wire.authenticateSchema, body), visitor.keyspace);
  if (token !== undefined) return { status: 200, body: JSON.stringify({ header: {}, token }) };
  const { name } = visitor.keyspace;
  throw new Refusal('password', `this is not the password of the keyspace ${name}, which is to be named as well`);
}

function checkToken(visitor: Visitor, token: string | undefined, shows: Endpoint['shows']): void {
  if (token === undefined)
    throw new Refusal('nobody', 'there is no token: authenticate at /v3/auth/authenticate first');
  if (visitor.tokens.isKnown(token)) return;
  throw new Refusal(
    shows === 'token' ? 'token' : 'again',
    'this token is not known, or not any more: authenticate again',
  );
}

function noLease(id: string): Refusal {
  return new Refusal('lease', `the lease ${id} has ended, or was not granted to this keyspace: make another one`);
}

function lasting(said: Said, place?: Disposable): DoorAnswer {
  return { ...said, [Symbol.dispose]: () => place?.[Symbol.dispose]() };
}

function parseAnswer<T>(schema: z.ZodType<T>, said: string): T {
  const parsed = schema.safeParse(JSON.parse(said));
  if (parsed.success) return parsed.data;
  throw new FlynnError('internal', `etcd's answer is not as expected: ${z.prettifyError(parsed.error)}`);
}
