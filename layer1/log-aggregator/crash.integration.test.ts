/** The program itself, killed again and again while it takes lines. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { retry } from '@flynn/kit/retry';
import type { Sending } from './api.ts';
import { createLogClient } from './client.ts';
import { sent } from './testing.ts';

const batches = 60;
const batchLines = 200;
const killEvery = 10;

async function start(dir: string): Promise<{ child: ChildProcess; url: string }> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts')], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'], FLYNN_KEY: 'k', FLYNN_STORAGE_DIR: dir, PORT: '0' },
  });
  let said = '';
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    said += String(chunk);
    const [, port] = /"port":(\d+),"apps"/.exec(said) ?? [];
    if (port === undefined) continue;
    child.stdout.resume();
    return { child, url: `http://127.0.0.1:${port}` };
  }
  throw new Error(`the log aggregator did not start: ${said}`);
}

async function kill(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

test('over kills nothing that was confirmed is lost, nothing is torn, and what is sent again is there once', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-logs-killed-'));
  let running = await start(dir);
  const client = createLogClient({ baseUrl: async () => running.url, key: 'k' });
  try {
    for (let batch = 0; batch < batches; batch += 1) {
      const lines = Array.from({ length: batchLines }, (_, index) => sent(batch * batchLines + index)).join('');
      let mode: Sending = 'fresh';
      // Now before, now in the middle of, now after it is written.
      const killing =
        batch % killEvery === killEvery - 1
          ? new Promise((resolve) => setTimeout(resolve, batch / killEvery)).then(async () => {
              await kill(running.child);
              running = await start(dir);
            })
          : Promise.resolve();
      await retry(
        async () => {
          const attempt = mode;
          mode = 'again';
          await client.ingest(lines, { mode: attempt });
        },
        { what: 'a batch to be taken', deadlineMs: 60_000, isRetryable: () => true },
      );
      await killing;
    }
    const kept: string[] = [];
    for await (const { message } of client.lines('app', { lines: 10_000 })) kept.push(message);
    const wanted = Array.from({ length: batches * batchLines }, (_, index) => `m${index}`);
    assert.deepEqual(kept, wanted.slice(-10_000));
    const early: string[] = [];
    for await (const { message } of client.lines('app', { lines: 10_000, search: 'm1' })) early.push(message);
    assert.deepEqual(
      early,
      wanted.filter((message) => message.includes('m1')),
    );
  } finally {
    await client.close();
    await kill(running.child);
    await rm(dir, { recursive: true, force: true });
  }
});
