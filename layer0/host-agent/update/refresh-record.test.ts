import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { forgetRefresh, readRefresh, writeRefresh } from './refresh-record.ts';

test('a program that was killed while a host became another version has ended, and its record says so', async () => {
  const stateDir = await mkdtemp(join(tmpdir(), 'flynn-refresh-'));
  const program = spawn('sh', ['-c', 'echo ready; read _', 'sh', 'refresh'], { stdio: ['pipe', 'pipe', 'ignore'] });
  try {
    assert.equal(await readRefresh(stateDir), undefined);
    await once(program.stdout, 'data');
    const begun = { version: '1.1.0', pid: program.pid ?? 0, hasEnded: false };
    await writeRefresh(stateDir, begun);
    assert.deepEqual(await readRefresh(stateDir), begun);

    const gone = once(program, 'close');
    program.kill('SIGKILL');
    await gone;
    const left = await readRefresh(stateDir);
    assert.deepEqual([left?.hasEnded, left?.error], [true, 'it was broken off']);

    // Another program that has got its number since.
    await writeRefresh(stateDir, { ...begun, pid: process.pid });
    assert.equal((await readRefresh(stateDir))?.hasEnded, true);
    await writeRefresh(stateDir, { ...begun, hasEnded: true });
    assert.equal((await readRefresh(stateDir))?.error, undefined, 'one that ended well needs no program');
    await forgetRefresh(stateDir);
    assert.equal(await readRefresh(stateDir), undefined);
  } finally {
    program.kill('SIGKILL');
    await rm(stateDir, { recursive: true });
  }
});
