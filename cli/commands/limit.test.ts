import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDeskWithController } from '../testing.ts';

test('`limit`, `limit set` and `limit build`', async () => {
  await using env = await openDeskWithController();
  const { desk, controller: world } = env;
  const memoryBytes = 512 * 1024 ** 2;
  await world.deployApp('slug-builder', { build: { command: ['build'], memoryBytes } }, { isSystem: true });
  await world.deployApp('hello', { web: { memoryBytes, cpuMillis: 500 } });
  const shown = await desk.run(['limit', '-a', 'hello']);
  assert.match(
    shown.stdout,
    /^TYPE +MEMORY +CPU +DISK +PIDS +FILES\nweb +512MB +500 +10GB +2048 +10000\n\nBUILD +LIMIT +AT MOST +SAID BY\nmemory +512MB +512MB +the cluster\ntime +30m/,
  );
  assert.equal((await desk.run(['limit', 'set', '-a', 'hello', 'web', 'memory=256MB'])).code, 0);
  assert.match((await desk.run(['limit', '-a', 'hello'])).stdout, /web +256MB +500/);
  const once = await desk.run(['limit', 'run', '-a', 'hello', 'memory=4GB', 'cpu=2000']);
  assert.match(
    once.stdout,
    /^RUNS ONCE +MEMORY +CPU +SAID BY\nrun +4GB +2000 +the app\ncron +1GB +1000 +the platform\n/,
  );
  assert.equal((await desk.run(['limit', 'release', '-a', 'hello', 'memory=2GB'])).code, 0);
  const all = await desk.run(['limit', '-a', 'hello']);
  assert.match(all.stdout, /\nrun +4GB +2000 +the app\ncron +1GB +1000 +the platform\nrelease +2GB +1000 +the app\n$/);
  await desk.run(['limit', 'run', '-a', 'hello', 'memory=', 'cpu=']);
  assert.match((await desk.run(['limit', '-a', 'hello'])).stdout, /\nrun +1GB +1000 +the platform\n/);
  const set = (...words: string[]) => desk.run(['limit', 'set', '-a', 'hello', 'web', ...words]);
  assert.equal((await set('disk=2GB', 'pids=500', 'files=4096')).code, 0);
  assert.match((await desk.run(['limit', '-a', 'hello'])).stdout, /web +256MB +500 +2GB +500 +4096\n/);
  assert.equal((await set('disk=', 'pids=', 'cpu=')).code, 0);
  assert.match((await desk.run(['limit', '-a', 'hello'])).stdout, /web +256MB +1000 +10GB +2048 +4096\n/);
  const build = await desk.run(['limit', 'build', '-a', 'hello', 'memory=256MB', 'time=20m']);
  assert.match(build.stdout, /memory +256MB +512MB +the app\ntime +20m +30m +the app\n/);
  assert.match(
    (await desk.run(['limit', 'build', '-a', 'hello', 'memory='])).stdout,
    /memory +512MB +512MB +the cluster/,
  );
  for (const [words, why] of [
    [['build', 'memory=9GB'], /more than this cluster lets a build have/],
    [['build', 'cpu=1'], /builds have no limit "cpu": there are memory, time, disk/],
    [['build', 'memory'], /"memory" limits nothing/],
    [['set', 'worker', 'memory=1GB'], /there is no process type "worker": there is web/],
    [['set', 'web', 'memory=lots'], /"lots" is no amount of memory/],
    [['set', 'cron', 'memory=2GB'], /what runs once is no process type: write flynn limit cron memory=2GB/],
    [['cron', 'memory=lots'], /"lots" is no amount of memory/],
    [['cron', 'disk='], /there is no limit "disk"/],
    [['set', 'web', 'disk=lots'], /"lots" is no amount of disk/],
    [['set', 'web', 'disk=1K'], /disk=1K is too little: 1MB is the least/],
    [['set', 'web', 'pids=0'], /processes and threads/],
    [['set', 'web', 'threads=1'], /there is no limit "threads": there are memory, cpu, disk, pids and files/],
  ] as const) {
    const { code, stderr } = await desk.run(['limit', words[0], '-a', 'hello', ...words.slice(1)]);
    assert.notEqual(code, 0);
    assert.match(stderr, why);
  }
});
