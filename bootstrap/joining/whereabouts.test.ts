import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatToken } from '@flynn/host-agent/cluster/join';
import { made } from '../cluster-fixture.ts';
import type { Cluster } from '../settings.ts';
import { type AskHost, whereaboutsText, withWhereabouts } from './whereabouts.ts';

const token = formatToken({
  addresses: ['10.0.0.21', '10.0.0.22', '10.0.0.23'],
  fingerprint: 'f'.repeat(64),
  secret: 'long-enough-a-secret',
});
const member = (address: string, isHealthy = true) => ({
  endpoint: `https://${address}:2379`,
  isHealthy,
  isLeader: false,
});
const host = (id: string, address?: string) => ({
  id,
  state: 'up' as const,
  ...(address === undefined ? {} : { address }),
});
const known: Cluster = {
  ...made(),
  hostId: 'h2',
  hasPlatform: false,
  address: '10.0.0.22',
  peers: ['10.0.0.1', '10.0.0.3'],
  etcdEndpoints: ['https://10.0.0.1:2379'],
};

test('a host that the others have moved away from learns where they are, of the first that has a store', async () => {
  const asked: string[] = [];
  const ask: AskHost = async (address) => {
    asked.push(address);
    return {
      etcd: [member('10.0.0.21', address === '10.0.0.23'), member('10.0.0.23', false)],
      hosts: [host('h1', '10.0.0.21'), host('h2', '10.0.0.2'), host('h3', '10.0.0.23'), host('h4')],
    };
  };
  const { cluster, failures } = await withWhereabouts(token, known, ask);
  assert.deepEqual(asked, ['10.0.0.21', '10.0.0.23'], 'not itself');
  assert.deepEqual(cluster, {
    ...known,
    etcdEndpoints: ['https://10.0.0.21:2379', 'https://10.0.0.23:2379'],
    peers: ['10.0.0.21', '10.0.0.23'],
  });
  assert.equal(whereaboutsText(failures), '');
  const founder = { ...known, peers: [], hasPlatform: true };
  assert.deepEqual((await withWhereabouts(token, founder, ask)).cluster.peers, [], 'it made the cluster');
});

test('where nobody tells, the host goes on with what it knew, and says why', async () => {
  const ask: AskHost = async (address) => {
    if (address === '10.0.0.21') throw new Error('connection refused');
    return { etcd: [member('10.0.0.1', false)], hosts: [] };
  };
  const { cluster, failures } = await withWhereabouts(token, known, ask);
  assert.deepEqual(cluster, known);
  assert.match(
    whereaboutsText(failures),
    /10\.0\.0\.21: connection refused\n {2}10\.0\.0\.23: no member of etcd answers it\nGoing on/,
  );
});
