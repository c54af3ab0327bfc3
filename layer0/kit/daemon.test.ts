import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { waitFor } from './retry.ts';

/** A daemon in its own process; `start` is the body of its start function. */
function spawnDaemon(start: string, env: Record<string, string> = {}, errors: 'inherit' | 'ignore' = 'inherit') {
  const source = `
    import { z } from 'zod';
    import { runDaemon } from ${JSON.stringify(new URL('daemon.ts', import.meta.url).href)};
    import { secret } from ${JSON.stringify(new URL('config.ts', import.meta.url).href)};
    await runDaemon({
      name: 'tester',
      config: z.object({ FLYNN_KEY: secret().optional() }),
      start: async ({ config, log, tasks, isToReturn }) => { ${start} },
    });`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', source], {
    cwd: import.meta.dirname,
    env,
    stdio: ['ignore', 'pipe', errors],
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    output += chunk;
  });
  const closed = once(child, 'close');
  return {
    kill: (signal: 'SIGTERM' | 'SIGUSR2' = 'SIGTERM') => child.kill(signal),
    says: (pattern: RegExp) =>
      waitFor(() => pattern.test(output), { what: `the daemon to say ${pattern}`, deadlineMs: 60_000, intervalMs: 10 }),
    async ended() {
      await closed;
      return { code: child.exitCode, output };
    },
    [Symbol.dispose]: () => void child.kill('SIGKILL'),
  };
}

test('SIGTERM stops the tasks, waits for their clean-up and exits 0', async () => {
  using daemon = spawnDaemon(`
    tasks.run('server', async (signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      log.info('cleaned up');
    });`);
  await daemon.says(/serving/);
  daemon.kill();
  const { code, output } = await daemon.ended();
  assert.equal(code, 0);
  assert.match(output, /stopping[\s\S]*cleaned up[\s\S]*stopped/);
});

test('a task that ends knows whether the daemon is to be back', async () => {
  for (const [signal, isToReturn] of [['SIGTERM', false] as const, ['SIGUSR2', true] as const]) {
    using daemon = spawnDaemon(`
      tasks.run('server', async (signal) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        log.info('back: ' + isToReturn());
      });`);
    await daemon.says(/serving/);
    daemon.kill(signal);
    const { code, output } = await daemon.ended();
    assert.equal(code, 0);
    assert.match(output, new RegExp(`back: ${isToReturn}`));
  }
});

test('a daemon without tasks serves until it is told to stop, and SIGTERM also ends one that is still starting', async () => {
  for (const start of ['', 'log.info("serving soon"); await new Promise(() => {});']) {
    using daemon = spawnDaemon(start);
    await daemon.says(/serving/);
    daemon.kill();
    assert.equal((await daemon.ended()).code, 0);
  }
});

test('a start that fails is one line that says why, and exit code 1', async () => {
  using daemon = spawnDaemon(`
    const { FlynnError } = await import(${JSON.stringify(new URL('errors.ts', import.meta.url).href)});
    throw new FlynnError('unavailable', 'etcd does not answer: is it running?');`);
  const { code, output } = await daemon.ended();
  assert.equal(code, 1);
  assert.match(output, /the tester cannot go on: etcd does not answer: is it running\?/);
  assert.doesNotMatch(output, /stack/);
});

test('a task that fails ends the daemon with exit code 1 after its siblings cleaned up', async () => {
  using daemon = spawnDaemon(`
    tasks.run('sibling', async (signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      log.info('cleaned up');
    });
    tasks.run('failing', async () => { throw new Error('lost the lease'); });`);
  const { code, output } = await daemon.ended();
  assert.equal(code, 1);
  assert.match(output, /lost the lease/);
  assert.match(output, /cleaned up/);
});

test('what nobody catches is told with its stack, and ends the daemon at once: no clean-up, exit code 1', async () => {
  for (const [how, origin] of [
    [`setImmediate(() => { throw new Error('lost the thread'); });`, 'uncaughtException'],
    [`void Promise.reject(new Error('lost the thread'));`, 'unhandledRejection'],
  ] as const) {
    const start = `
      tasks.run('sibling', async (signal) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        log.info('cleaned up');
      });
      ${how}`;
    using daemon = spawnDaemon(start, {}, 'ignore');
    const { code, output } = await daemon.ended();
    assert.equal(code, 1);
    const line = output.split('\n').find((text) => text.includes('"level":"fatal"')) ?? assert.fail(output);
    const told = JSON.parse(line);
    assert.equal(told.msg, 'the tester ends, for nobody caught this: lost the thread');
    assert.equal(told.origin, origin);
    assert.match(told.err.stack, /lost the thread\n +at /);
    assert.doesNotMatch(output, /cleaned up/);
  }
});

test('a wrong configuration is told by name, and secrets are not printed at boot', async () => {
  using wrong = spawnDaemon('', { FLYNN_KYE: 'x' });
  const { code, output } = await wrong.ended();
  assert.equal(code, 1);
  assert.match(output, /FLYNN_KYE is not a variable of this program: did you mean FLYNN_KEY\?/);
  using right = spawnDaemon('', { FLYNN_KEY: 'hidden', FLYNN_LOG_LEVEL: 'debug' });
  await right.says(/serving/);
  right.kill();
  assert.doesNotMatch((await right.ended()).output, /hidden/);
});
