/** For tests: a front alone, with a policy that does what the test says and writes down what it is told. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { Backend } from './backend.ts';
import type { Driver } from './config.ts';
import type {
  Answer,
  Ending,
  Exchange,
  Failing,
  Fields,
  Front,
  Limits,
  Policy,
  Problem,
  RequestHead,
  Verdict,
} from './exchange.ts';
import { Http1Front } from './http1/front.ts';
import { linesOf } from './policy/origin.ts';
import { ReferenceFront } from './reference/front.ts';

export type Script = {
  limits?: Partial<Limits>;
  requestFields?: Fields;
  removedFields?: ReadonlySet<string>;
  answered?: (status: number) => Fields | Answer;
};

export type FrontWorld = {
  port: number;
  front: Front;
  backends: Backend[];
  endings: Ending[];
  /** `pick`, `dial`, `broke`, `late`, `release`, `end`, in the order in which they were told. */
  told: string[];
};

export async function startFront(
  t: TestContext,
  driver: Driver,
  addresses: string[],
  script: Script = {},
): Promise<FrontWorld> {
  const backends = addresses.map((address) => new Backend('web', address));
  const endings: Ending[] = [];
  const told: string[] = [];
  const policy: Policy = {
    admit: (head): Verdict => ({ exchange: new ScriptedExchange(head, { backends, endings, told, script }) }),
    refuse: (status, code, message): Answer => ({ status, code, fields: [], body: message }),
  };
  const front = driver === 'fast' ? new Http1Front({ policy }) : new ReferenceFront({ policy, log: silentLogger() });
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    front.take(socket, { address: '127.0.0.1', port: socket.remotePort ?? 0, localPort: 0, isTls: false });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    server.close();
    await front.drain({ deadlineMs: 0 });
    for (const backend of backends) backend.leave();
  });
  const { port } = server.address() as AddressInfo;
  return { port, front, backends, endings, told };
}

const defaults: Limits = {
  dialMs: 20_000,
  firstByteMs: 20_000,
  idleMs: 20_000,
  totalMs: 0,
  bodyBytes: 0,
  bufferBytes: 0,
};

type Told = { backends: readonly Backend[]; endings: Ending[]; told: string[]; script: Script };

class ScriptedExchange implements Exchange {
  readonly requestId = 'id';
  readonly target: string;
  readonly backendProtocol = 'http1';
  readonly limits: Limits;
  readonly requestFields: Fields;
  readonly requestLines: string;
  readonly removedFields: ReadonlySet<string>;
  readonly #world: Told;
  #next = 0;

  constructor(head: RequestHead, world: Told) {
    this.#world = world;
    this.target = head.target;
    this.limits = { ...defaults, ...world.script.limits };
    this.requestFields = world.script.requestFields ?? [];
    this.requestLines = linesOf(this.requestFields);
    this.removedFields = world.script.removedFields ?? new Set();
  }

  /** One after the other. */
  pick(): Backend | undefined {
    const backend = this.#world.backends[this.#next];
    this.#next += 1;
    if (backend !== undefined) this.#world.told.push('pick');
    return backend;
  }

  failed(_backend: Backend, how: Failing): void {
    this.#world.told.push(how);
  }

  answered(_backend: Backend, status: number): Fields | Answer {
    return this.#world.script.answered?.(status) ?? [];
  }

  release(): void {
    this.#world.told.push('release');
  }

  answerFor(problem: Problem): Answer {
    return { status: 599, code: problem, fields: [], body: problem };
  }

  end(ending: Ending): void {
    this.#world.told.push('end');
    this.#world.endings.push(ending);
  }
}
