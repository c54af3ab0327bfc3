import { after, before } from 'node:test';
import { startEtcdCluster } from '@flynn/store/etcd-cluster';
import type { EtcdCluster } from '@flynn/store/etcd-cluster';
import { openProxied } from '@flynn/store/etcd-fixture';
import { resourceConformance } from './conformance.ts';

const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
let cluster: EtcdCluster;

before(async () => {
  cluster = await startEtcdCluster({ members: 3, ...(image === undefined ? {} : { image }) });
});
after(() => cluster.stop());

resourceConformance("etcd's leader", async () => {
  const leader = await cluster.leader();
  return openProxied({ endpoints: [leader.endpoint] });
});

resourceConformance('a follower of etcd, with a second client at the leader', async () => {
  const leader = await cluster.leader();
  const follower = cluster.members.find((member) => member !== leader) ?? leader;
  return openProxied({ endpoints: [follower.endpoint], peerEndpoints: [leader.endpoint] });
});
