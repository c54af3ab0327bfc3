import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';
import { longMs } from './guestbook.ts';

/** Beside the guestbook's database. */
export function describeRedis(theCluster: () => TestCluster): void {
  test('an app gets a Redis beside its database: what it wrote is there when a member that died is back, and goes with it', async () => {
    const cluster = theCluster();
    const flynn = (...words: string[]) => cluster.flynn(['-a', 'guestbook', ...words]);
    await flynn('resource', 'add', 'redis');
    const program = `const { hostname, port, username, password } = new URL(process.env.REDIS_URL);
      const socket = require('net').connect(port, hostname).on('data', (said) => console.log(String(said).trim()));
      socket.write('AUTH ' + username + ' ' + password + '\\r\\nSET greeting hello\\r\\nQUIT\\r\\n');`;
    assert.match((await flynn('run', 'node', '-e', program)).stdout, /OK\s+\+OK/);
    const greeting = async () => (await flynn('redis', 'cli', '--', 'GET', 'greeting')).stdout.trim();
    assert.equal(await greeting(), 'hello');
    const [container = ''] = await cluster.containers('guestbook-redis', 'redis');
    await cluster.dockerOf(cluster.host, 'kill', container);
    // It serves before it is announced again, and is found by its name alone.
    await waitFor(async () => (await greeting().catch(() => '')) === 'hello', {
      what: 'it to be back',
      deadlineMs: longMs,
      intervalMs: 200,
    });
    const keysTold = async () => {
      const [view] = JSON.parse((await flynn('redis', '--json')).stdout) as { database?: { keys: number } }[];
      return view?.database?.keys;
    };
    const told = await waitFor(keysTold, { what: 'what is in it to be told', deadlineMs: longMs, intervalMs: 500 });
    assert.equal(told, 1);
    const all = JSON.parse((await flynn('resource', '--json')).stdout) as { id: string; provider: string }[];
    await flynn('resource', 'remove', all.find(({ provider }) => provider === 'redis')?.id ?? '', '-y');
    await waitFor(async () => (await cluster.containers('guestbook-redis', 'redis')).length === 0, {
      what: 'its container to go',
      deadlineMs: longMs,
      intervalMs: 500,
    });
  });
}
