import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nameServersIn } from './name-servers.ts';

const resolved = 'nameserver 192.0.2.1\nnameserver 2001:db8::1\n';

test('what systemd-resolved asks counts where the machine asks that, and nowhere else', () => {
  const servers = (machine: string, given = '') => nameServersIn({ machine, resolved, given });
  assert.deepEqual(servers('nameserver 127.0.0.53\noptions edns0\n'), ['127.0.0.53', '192.0.2.1']);
  // Its file is there too beside others: somebody has the machine ask another one.
  assert.deepEqual(servers('nameserver 198.51.100.7\n'), ['198.51.100.7']);
  assert.deepEqual(servers('nameserver 127.0.0.1\n'), ['127.0.0.1']);
  assert.deepEqual(servers(''), []);
});

test('those that containers are given count as well, each once', () => {
  const machine = 'nameserver 192.0.2.1\n';
  assert.deepEqual(nameServersIn({ machine, resolved: '', given: '192.0.2.1, 198.51.100.7:5353' }), [
    '192.0.2.1',
    '198.51.100.7',
  ]);
});
