import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';

const code = `
  import { interruptible } from ${JSON.stringify(join(import.meta.dirname, 'interrupts.ts'))};
  await interruptible(async (signal) => {
    const alive = setInterval(() => {}, 1_000);
    console.log('ready');
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    clearInterval(alive);
    console.log(signal.reason.code + ': ' + signal.reason.message);
  });`;

for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  test(`a program that is told to end by ${name} sees to what it has to first`, async () => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
    await once(child.stdout, 'data');
    child.kill(name);
    const [exitCode] = await once(child, 'close');
    assert.deepEqual([exitCode, said], [0, `ready\ncancelled: it was ended by ${name}\n`]);
  });
}
