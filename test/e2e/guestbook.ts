/** An app with a database, and who writes into it while something befalls them. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { pause } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import type { Checkout } from '../checkout.ts';
import type { TestCluster } from '../test-cluster.ts';

export const longMs = 240_000;

let writers = 0;

/** Notes that the app has confirmed, one after the other, until it is told to stop. */
class Writer {
  readonly confirmed: string[] = [];
  /** Those that were not. */
  refused = 0;
  /** The longest time without one. */
  longestMs = 0;
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;
  /** What one wrote is taken for nothing that another did. */
  readonly #name = `writer-${(writers += 1)}`;

  constructor(write: (note: string) => Promise<boolean>) {
    this.#running = this.#run(write);
  }

  async #run(write: (note: string) => Promise<boolean>): Promise<void> {
    let lastMs = performance.now();
    for (let number = 1; !this.#ending.signal.aborted; number += 1) {
      const note = `${this.#name}-${number}`;
      if (await write(note)) {
        this.longestMs = Math.max(this.longestMs, performance.now() - lastMs);
        lastMs = performance.now();
        this.confirmed.push(note);
      } else this.refused += 1;
      await pause(50, this.#ending.signal);
    }
  }

  /** Once so many more were confirmed. */
  async more(count: number): Promise<void> {
    const wanted = this.confirmed.length + count;
    await waitFor(async () => this.confirmed.length >= wanted, {
      what: `${count} notes more`,
      deadlineMs: longMs,
      intervalMs: 50,
    });
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }
}

const answersOf = (text: string): string[] => text.split('\n').filter((line) => line !== '');

export async function notesOf(cluster: TestCluster, host: ClusterHost): Promise<string[]> {
  const { body } = await waitFor(
    async () => {
      const answer = await cluster.get('guestbook', '/', { host });
      return answer.status === 200 ? answer : undefined;
    },
    { what: 'the notes', deadlineMs: longMs, intervalMs: 200 },
  );
  return answersOf(body);
}

export function startWriter(cluster: TestCluster, host: ClusterHost): Writer {
  return new Writer(async (note) => {
    try {
      return (await cluster.get('guestbook', `/?note=${note}`, { host })).status === 200;
    } catch {
      // Its router, or the app, is on its way elsewhere.
      return false;
    }
  });
}

/** Ends the writing: all that was confirmed is among the notes, which are the answer. */
export async function assertKept(
  t: TestContext,
  { writer, cluster, host }: { writer: Writer; cluster: TestCluster; host: ClusterHost },
): Promise<string[]> {
  await writer.stop();
  t.diagnostic(`${(writer.longestMs / 1_000).toFixed(1)} s without a note at most`);
  const notes = await notesOf(cluster, host);
  const kept = new Set(notes);
  assert.deepEqual(
    writer.confirmed.filter((note) => !kept.has(note)),
    [],
  );
  return notes;
}

export type Member = { host: string; role: string; isSynchronous: boolean };

export async function membersOf(cluster: TestCluster, host: ClusterHost): Promise<Member[]> {
  const { stdout } = await cluster.flynn(['-a', 'guestbook', 'pg', 'info', '--json'], { host });
  return (JSON.parse(stdout) as { members: Member[] }[]).flatMap(({ members }) => members);
}

/** An app with a database, into which it has written. */
export async function pushGuestbook(cluster: TestCluster): Promise<Checkout> {
  const app = await cluster.checkout('guestbook');
  await app.push();
  const { status, body } = await app.untilAnswers();
  assert.deepEqual([status, body], [200, 'no database yet\n']);
  const { stdout } = await app.flynn(['resource', 'add', 'postgres']);
  assert.match(stdout, /^Created resource \w+ and release v\d+\.\n$/);
  const written = await waitFor(
    async () => {
      const answer = await app.get('/?note=first');
      return answer.status === 200 && answer.body;
    },
    { what: 'the first note', deadlineMs: longMs, intervalMs: 200 },
  );
  assert.equal(written, 'first\n');
  return app;
}
