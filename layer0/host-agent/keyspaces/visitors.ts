/** Who comes to the door? Jobs of this host with a keyspace, known by the address they come from. */
import type { Keyspace } from '@flynn/scheduler/job-template';
import { FlynnError } from '@flynn/kit/errors';
import type { Container } from '../engine/engine.ts';
import { keyspaceOfLabels } from '../engine/labels.ts';
import { Allowance } from './allowance.ts';
import { type LeaseState, Leases } from './leases.ts';
import { Refusal } from './refusal.ts';
import { Tokens } from './tokens.ts';

const maxOpen = { asks: 32, watches: 16 } as const;

export type VisitorOptions = Readonly<{
  /** What etcd knows of a lease, and whether its keys are all inside of that keyspace. */
  look: (keyspace: string, id: string, signal: AbortSignal) => Promise<LeaseState>;
  now: () => number;
}>;

/** One container, for as long as it runs: what was granted to it goes with it. */
export class Visitor implements Disposable {
  readonly keyspace: Keyspace;
  readonly tokens = new Tokens();
  readonly leases: Leases;
  readonly allowance: Allowance;
  readonly #open = { asks: 0, watches: 0 };
  readonly #leaving = new AbortController();

  constructor(keyspace: Keyspace, { look, now }: VisitorOptions) {
    this.keyspace = keyspace;
    this.leases = new Leases({ look: (id, signal) => look(keyspace.name, id, signal), now });
    this.allowance = new Allowance(now);
  }

  /** Aborts when the container does not run any more. */
  get gone(): AbortSignal {
    return this.#leaving.signal;
  }

  /** Throws where too many are open; what it answers ends this one. */
  enter(kind: keyof typeof maxOpen): Disposable {
    if (this.#open[kind] >= maxOpen[kind]) {
      throw new Refusal('full', `the job has ${maxOpen[kind]} ${kind} open, as many as it may: end one first`);
    }
    this.#open[kind] += 1;
    let isOpen = true;
    return {
      [Symbol.dispose]: () => {
        if (isOpen) this.#open[kind] -= 1;
        isOpen = false;
      },
    };
  }

  [Symbol.dispose](): void {
    this.#leaving.abort(new FlynnError('cancelled', 'the job has ended'));
  }
}

export class Visitors {
  readonly #containers: () => readonly Container[];
  readonly #options: VisitorOptions;
  /** By container. */
  readonly #known = new Map<string, Visitor>();

  constructor(containers: () => readonly Container[], options: VisitorOptions) {
    this.#containers = containers;
    this.#options = options;
  }

  /** Undefined of who has no keyspace, or is no running container. */
  at(address: string): Visitor | undefined {
    const found = this.#containers().find((one) => isRunning(one) && one.address === address);
    const keyspace = found === undefined ? undefined : keyspaceOfLabels(found.labels);
    if (found === undefined || keyspace === undefined) return undefined;
    const known = this.#known.get(found.id);
    if (known !== undefined) return known;
    const visitor = new Visitor(keyspace, this.#options);
    this.#known.set(found.id, visitor);
    return visitor;
  }

  /** Lets go of those whose containers do not run any more. */
  sweep(): void {
    if (this.#known.size === 0) return;
    const running = new Set(this.#containers().flatMap((one) => (isRunning(one) ? [one.id] : [])));
    for (const [id, visitor] of this.#known) {
      if (running.has(id)) continue;
      this.#known.delete(id);
      visitor[Symbol.dispose]();
    }
  }
}

function isRunning({ state }: Container): boolean {
  return state === 'running';
}
