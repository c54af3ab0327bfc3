import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ourRoutes } from './removal.ts';

test('routes of agents are told with their devices, those of a range alone; without ip there are none', async () => {
  const listed = [
    { dst: '100.100.1.0/24', gateway: '192.0.2.2', dev: 'eth0', prefsrc: '100.100.0.1', flags: [] },
    { dst: '100.100.2.0/24', gateway: '100.100.2.1', dev: 'flynnvx7117', prefsrc: '100.100.0.1', flags: ['onlink'] },
    { dst: '10.231.1.0/24', gateway: '192.0.2.2', dev: 'eth0', flags: [] },
  ];
  const signal = AbortSignal.timeout(10_000);
  const known = (range: string, said: string) => ourRoutes(range, { run: () => Promise.resolve(said), signal });
  assert.deepEqual(await known('100.100.0.0/16', JSON.stringify(listed)), [
    { subnet: '100.100.1.0/24', device: 'eth0' },
    { subnet: '100.100.2.0/24', device: 'flynnvx7117' },
  ]);
  assert.equal((await known('0.0.0.0/0', JSON.stringify(listed))).length, 3);
  assert.deepEqual(await known('0.0.0.0/0', ''), []);
});
