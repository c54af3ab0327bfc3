/** Behind NAT, end to end: a host, and then a person with a runner of their own, on one cluster that reaches neither. */
import { after, before, suite } from 'node:test';
import { TestCluster } from '../test-cluster.ts';
import { describeHostBehindNat } from './host-behind-nat.ts';
import { describeOutside } from './outside.ts';

suite('behind NAT', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.create(30, { hosts: 2, behindNat: [1] });
    await cluster.upFirst();
  });
  after(() => cluster[Symbol.asyncDispose]());

  const theCluster = () => cluster;
  suite('a host', () => describeHostBehindNat(theCluster));
  suite('a person and a runner', () => describeOutside(theCluster, 32));
});
