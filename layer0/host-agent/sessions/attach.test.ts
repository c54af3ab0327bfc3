/** What becomes of a job's input when its clients go; what else attaching does is seen with real jobs. */
import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import type { Duplex } from 'node:stream';
import { test } from 'node:test';
import { encodeFrame } from '@flynn/kit/frames';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { attachClient } from './attach.ts';
import { hostId, jobOf, openHost, scenario } from '../host-fixture.ts';
import type { HostFixture } from '../host-fixture.ts';
import type { Engine } from '../engine/engine.ts';
import { Sessions } from './session.ts';

/** A one-off job that echoes what it is sent until its input ends, and clients that attach to it. */
function attended(
  run: (world: { agent: HostFixture; attach: (stdin: boolean) => Client; readers: () => number }) => Promise<void>,
) {
  return scenario(async ({ engine, store }) => {
    const sessions = new Sessions(engine);
    const agent = await openHost({
      engine,
      store,
      async beforeStart(job, containerId) {
        if (job.template.stdin) await sessions.open(job.id, containerId, { logs: false });
      },
    });
    const clients: Client[] = [];
    const attach = (stdin: boolean) => {
      const client = new Client({ agent, engine, sessions, stdin });
      clients.push(client);
      return client;
    };
    await agent.assign([job]);
    await run({ agent, attach, readers: () => sessions.get(job.id)?.readers ?? 0 });
    for (const client of clients) client.leave();
    await agent.stop();
    sessions.close();
  });
}

const job = jobOf('piped', { restart: 'never', stdin: true, command: ['sh', '-c', 'cat; exit 3'] });

class Client {
  readonly #socket: Duplex;
  #output = Buffer.alloc(0);

  constructor(options: { agent: HostFixture; engine: Engine; sessions: Sessions; stdin: boolean }) {
    const { agent, engine, sessions, stdin } = options;
    const [near, far] = duplexPair();
    this.#socket = near;
    near.on('data', (data: Buffer) => (this.#output = Buffer.concat([this.#output, data])));
    const deps = {
      engine,
      containers: agent.containers,
      sessions,
      hostId,
      statusOf: (jobId: string) => agent.host.jobs.get(jobId)?.status,
      requestStop: agent.host.requestStop,
      log: silentLogger(),
    };
    void attachClient(deps, { jobId: job.id, stdin, logs: false }, far);
  }

  async sends(text: string): Promise<void> {
    this.#socket.write(encodeFrame({ kind: 'stdin', data: Buffer.from(text) }));
    await waitFor(() => this.#output.includes(text), { what: `to read ${text}`, deadlineMs: 60_000, intervalMs: 5 });
  }

  leave(): void {
    this.#socket.end();
  }
}

test('a piped job whose client goes away without a word finds the end of its input', () =>
  attended(async ({ agent, attach }) => {
    const client = attach(true);
    await client.sends('half a dump');
    client.leave();
    const ended = await agent.reach(job, 'over', (s) => s.isFinal);
    assert.equal(ended.exitCode, 3);
  }));

test('its input is open as long as somebody may write, whoever else only looked', () =>
  attended(async ({ agent, attach, readers }) => {
    const [first, second, looking] = [attach(true), attach(true), attach(false)];
    const until = (what: string, test: () => boolean) => waitFor(test, { what, deadlineMs: 60_000, intervalMs: 5 });
    await until('all three', () => readers() === 3);
    looking.leave();
    first.leave();
    await until('two to be gone', () => readers() === 1);
    await second.sends('two');
    assert.equal((await agent.statusOf(job))?.state, 'running');
    second.leave();
    await agent.reach(job, 'over', (s) => s.isFinal);
  }));
