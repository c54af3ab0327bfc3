/** The same history comes to the same bytes in any process: a mirror depends on nothing but what the store says. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import crypto, { createHash, webcrypto } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import { z } from 'zod';
import { checkJson } from './codec.ts';
import { emptyState, foldBatch, foldListing, foldRestored } from './mirror-state.ts';
import type { ChangeBatch, Listing } from './store.ts';
import { openTestStore } from './testing.ts';

const run = promisify(execFile);
// Made before the clock is taken away: it looks at it once.
const log = silentLogger();
const shape = z.object({ n: z.number(), tags: z.record(z.string(), z.array(z.number())) });

/** A history as a store tells it, written to a file for the processes that fold it. */
type History = { listing: Listing; batches: ChangeBatch[]; restored: Listing };

/** One line per revision: a hash of every entry, in the order of iteration, and of what changed. */
function foldHistory({ listing, batches, restored }: History): string {
  const decoding = { prefix: '/d/', decode: (json: unknown) => checkJson(shape, json, '/d/'), log };
  const lines: string[] = [];
  let folded = foldListing(emptyState<z.output<typeof shape>>(), listing, decoding);
  const note = () => {
    const { snapshot, unreadable } = folded.state;
    const content = JSON.stringify([...snapshot.entries, ...unreadable, ...folded.changes]);
    lines.push(`${snapshot.revision} ${snapshot.entries.size} ${createHash('sha256').update(content).digest('hex')}`);
  };
  note();
  for (const batch of batches) {
    folded = foldBatch(folded.state, batch, decoding);
    note();
  }
  folded = foldRestored(folded.state, restored, decoding);
  note();
  return lines.join('\n');
}

function forbid(target: object, name: string): void {
  Object.defineProperty(target, name, {
    value: () => {
      throw new FlynnError('internal', `${name} was asked while folding`);
    },
  });
}

const historyFile = process.env['FLYNN_TEST_HISTORY'];
if (historyFile === undefined) test('two processes fold one history to the same bytes at every revision', compare);
else {
  const history: History = JSON.parse(await readFile(historyFile, 'utf8'));
  forbid(Date, 'now');
  forbid(Math, 'random');
  forbid(performance, 'now');
  forbid(webcrypto, 'randomUUID');
  for (const name of ['randomUUID', 'randomBytes', 'randomInt']) forbid(crypto, name);
  // Those that were imported by name already throw too.
  syncBuiltinESMExports();
  process.stdout.write(foldHistory(history));
}

async function compare(): Promise<void> {
  const history = await makeHistory();
  const folder = await mkdtemp(path.join(tmpdir(), 'flynn-history-'));
  try {
    const file = path.join(folder, 'history.json');
    await writeFile(file, JSON.stringify(history));
    const [first, second] = await Promise.all([
      foldElsewhere(file, { TZ: 'UTC', LANG: 'C' }),
      foldElsewhere(file, { TZ: 'Asia/Kathmandu', LANG: 'tr_TR.UTF-8' }),
    ]);
    assert.equal(first, second);
    assert.equal(first, foldHistory(history));
    const lines = first.split('\n');
    assert.equal(lines.length, history.batches.length + 2);
    assert.equal(new Set(lines).size, lines.length);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function foldElsewhere(file: string, env: Record<string, string>): Promise<string> {
  const { stdout } = await run(process.execPath, [import.meta.filename], {
    env: { ...process.env, ...env, NODE_TEST_CONTEXT: '', FLYNN_TEST_HISTORY: file },
    timeout: 100_000,
    maxBuffer: 64 * 1024 ** 2,
  });
  return stdout;
}

/** A few hundred revisions: puts, deletions, several in one, entries nobody can read. */
async function makeHistory(): Promise<History> {
  await using store = openTestStore();
  const value = (i: number) => JSON.stringify({ n: i, tags: { [`t${i % 5}`]: [i, i + 1] } });
  for (let i = 0; i < 50; i += 1) await store.transact({ then: [{ put: `/d/${i}`, value: value(i) }] });
  const listing = await store.list('/d/');
  const image = store.save();
  const batches: ChangeBatch[] = [];
  const watch = store.watch('/d/', { after: listing.revision, signal: withDeadline(60_000) });
  for (let i = 0; i < 300; i += 1) {
    const key = `/d/${(i * 37) % 90}`;
    await store.transact({
      then: [
        i % 4 === 3 ? { delete: key } : { put: key, value: i % 11 === 0 ? 'unreadable' : value(i) },
        { put: `/d/all/${i % 13}`, value: value(i) },
      ],
    });
    const next = await watch[Symbol.asyncIterator]().next();
    if (next.done !== true) batches.push(next.value);
  }
  store.restore(image);
  return { listing, batches, restored: await store.list('/d/') };
}
