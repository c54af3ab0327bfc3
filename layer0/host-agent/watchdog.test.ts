import assert from 'node:assert/strict';
import { mkdtempDisposable, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { test } from 'node:test';
import { createLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { Watchdog } from './watchdog.ts';

test('the first watchdog of a host runs at once, though its folder was not there', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-watchdog-'));
  const dir = join(folder.path, 'watchdog');
  const lines: string[] = [];
  const destination = new Writable({ write: (chunk, _encoding, done) => (lines.push(String(chunk)), done()) });
  const watchdog = new Watchdog({ dir, log: createLogger('test', { destination }) });
  await watchdog.guard(performance.now() + 60_000, ['0123456789abcdef']);
  const readPid = async () => Number(await readFile(join(dir, 'watchdog.pid'), 'utf8')) || undefined;
  const pid = await waitFor(readPid, { what: 'the watchdog', deadlineMs: 60_000 });
  try {
    assert.deepEqual(lines, []);
    assert.match(await readFile(`/proc/${pid}/cmdline`, 'utf8'), /flynn-watchdog/);
  } finally {
    process.kill(pid, 'SIGKILL');
  }
});
