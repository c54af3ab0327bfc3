import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { lockFileOf, withHostLock } from './host-lock.ts';

const folder = () => mkdtempDisposable(join(tmpdir(), 'flynn-lock-'));

/** It takes the lock, does what it is told under it, says so, and stays until it is killed. */
function programOf(stateDir: string, then = ''): string {
  return `
    import { spawn } from 'node:child_process';
    import { writeFileSync } from 'node:fs';
    import { withHostLock } from ${JSON.stringify(join(import.meta.dirname, 'host-lock.ts'))};
    await withHostLock(${JSON.stringify(stateDir)}, 'a program of a test', async (lock) => {
      ${then}
      console.log('held by ' + process.pid);
      await new Promise((resolve) => setTimeout(resolve, 600_000));
    });`;
}

function start(code: string): ChildProcess {
  return spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
}

async function untilHeld(child: ChildProcess): Promise<number> {
  const [said] = await once(child.stdout ?? child, 'data');
  return Number(/held by (\d+)/.exec(String(said))?.[1]);
}

function endIfThere(pid: number): void {
  if (existsSync(`/proc/${pid}`)) process.kill(pid, 'SIGKILL');
}

const isHeldBy = (pid: number) => (error: unknown) =>
  hasCode(error, 'conflict') &&
  new RegExp(`a program of a test is at work here since 2.*Z \\(process ${pid}\\).*kill ${pid}`).test(error.message);

test('a second one is refused at once with who is at work, since when and what to do, and leaves nothing', async () => {
  await using dir = await folder();
  const stateDir = join(dir.path, 'state');
  await withHostLock(stateDir, 'flynn-host update', async () => {
    await assert.rejects(
      withHostLock(stateDir, 'another', () => assert.fail('two at once')),
      (error) =>
        hasCode(error, 'conflict') &&
        /flynn-host update is at work here since .*Nothing was changed/.test(error.message),
    );
    assert.equal(await withHostLock(join(dir.path, 'other'), 'of another host', async () => 'done'), 'done');
  });
  assert.equal(await withHostLock(stateDir, 'another', async () => 'done'), 'done');
  assert.equal(existsSync(lockFileOf(stateDir)), false);
});

test('one that failed and one that was killed are in nobody’s way', async () => {
  await using dir = await folder();
  const stateDir = join(dir.path, 'state');
  await assert.rejects(
    withHostLock(stateDir, 'one', () => Promise.reject(new Error('no'))),
    /no/,
  );
  const child = start(programOf(stateDir));
  const pid = await untilHeld(child);
  await assert.rejects(
    withHostLock(stateDir, 'another', () => assert.fail('two at once')),
    isHeldBy(pid),
  );
  child.kill('SIGKILL');
  await once(child, 'close');
  assert.equal(await withHostLock(stateDir, 'another', async () => 'done'), 'done');
});

test('a program that was handed the lock has it when the one that started it is killed; what it leaves running has not', async () => {
  await using dir = await folder();
  const stateDir = join(dir.path, 'state');
  const left = join(dir.path, 'left');
  const handed = programOf(
    stateDir,
    `const left = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' });
     writeFileSync(${JSON.stringify(left)}, String(left.pid));`,
  );
  const hand = `
    spawn(process.execPath, ['--input-type=module', '-e', ${JSON.stringify(handed)}], { stdio: ['ignore', 'inherit', 'inherit', lock.fd] });
    await new Promise((resolve) => setTimeout(resolve, 600_000));`;
  const first = start(programOf(stateDir, hand));
  const second = await untilHeld(first);
  try {
    assert.notEqual(second, first.pid);
    first.kill('SIGKILL');
    await assert.rejects(
      withHostLock(stateDir, 'another', () => assert.fail('two at once')),
      isHeldBy(second),
    );
    process.kill(second, 'SIGKILL');
    const after = waitFor(() => withHostLock(stateDir, 'another', async () => 'done'), {
      what: 'the lock to be free',
      deadlineMs: 30_000,
    });
    assert.equal(await after, 'done');
  } finally {
    for (const pid of [first.pid ?? 0, second, Number(readFileSync(left, 'utf8'))]) endIfThere(pid);
  }
});

test('of many at once one at a time is at work, whoever takes the file away', async () => {
  await using dir = await folder();
  const stateDir = join(dir.path, 'state');
  let [atWork, most, done] = [0, 0, 0];
  const one = async (): Promise<void> => {
    await waitFor(
      async () => {
        await withHostLock(stateDir, 'one of many', async () => {
          atWork += 1;
          most = Math.max(most, atWork);
          await setImmediate();
          atWork -= 1;
          done += 1;
        });
        return true;
      },
      { what: 'its turn', deadlineMs: 60_000, intervalMs: 1 },
    );
  };
  await Promise.all(Array.from({ length: 12 }, one));
  assert.deepEqual([most, done], [1, 12]);
});
