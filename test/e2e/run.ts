import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';

export function describeRun(theCluster: () => TestCluster): void {
  test("a one-off job's output and exit code come through", async () => {
    const { stdout } = await theCluster().flynn(
      ['-a', 'express', 'run', 'sh', '-c', 'echo out; echo err >&2; exit 42'],
      { code: 42 },
    );
    assert.match(stdout, /out/);
  });

  test('stdin reaches the job until its end', async () => {
    const { stdout } = await theCluster().flynn(['-a', 'express', 'run', 'cat'], { input: 'one\ntwo é\n' });
    assert.equal(stdout, 'one\ntwo é\n');
  });

  test('a terminal is a terminal, with its size', async () => {
    const cluster = theCluster();
    // It runs a moment before it is told its size.
    const program = 'tty; while [ "$(stty size)" = "0 0" ]; do sleep 0.1; done; stty size; exit 7';
    const { stdout } = await cluster.exec(
      [
        'script',
        '-qec',
        `stty rows 33 columns 99; ${cluster.flynnCommand} -a express run sh -c '${program}'`,
        '/dev/null',
      ],
      { code: 7 },
    );
    assert.match(stdout, /\/dev\/pts\/\d/);
    assert.match(stdout, /33 99/);
  });

  test('Ctrl-C reaches the job, and its exit code comes back', async () => {
    const cluster = theCluster();
    const child = spawn(
      ...cluster.host.command([
        cluster.flynnCommand,
        '-a',
        'express',
        'run',
        'sh',
        '-c',
        'trap "echo caught; exit 5" INT; echo ready; while :; do sleep 0.1; done',
      ]),
      {
        env: { ...process.env, ...cluster.env },
        cwd: cluster.directory,
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (output += chunk));
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => (output += chunk));
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
    await waitFor(() => output.includes('ready'), { what: 'the job to be ready', deadlineMs: 120_000 });
    child.kill('SIGINT');
    assert.equal(await ended, 5, output);
    assert.match(output, /caught/);
  });

  test('`run -d` answers at once, and the log has what it wrote', async () => {
    const cluster = theCluster();
    const { stdout } = await cluster.flynn(['-a', 'express', 'run', '-d', 'sh', '-c', 'echo detached work done']);
    assert.notEqual(stdout.trim(), '');
    await waitFor(
      async () => (await cluster.flynn(['-a', 'express', 'log', '-n', '200'])).stdout.includes('detached work done'),
      {
        what: 'the line in the log',
        deadlineMs: 120_000,
        intervalMs: 300,
      },
    );
  });
}
