/** Three hosts, end to end: they join, share the work, keep strangers out, lose one of them, and lose power all at once. */
import { after, before, suite } from 'node:test';
import { TestCluster } from '../test-cluster.ts';
import { describeLastingDatabase, describeReplicatedDatabase } from './replicated-databases.ts';
import { describeEncryption } from './encryption.ts';
import { describeJoining } from './joining.ts';
import { describeLeaving, describeReturn } from './leaving.ts';
import { describeLostHost } from './lost-host.ts';
import { describePlacement } from './placement.ts';
import { describePorts } from './ports.ts';
import { describeRotationElsewhere } from './rotation.ts';
import { describeSharing } from './sharing.ts';

suite('three hosts', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.create(10, { hosts: 3 });
  });
  after(() => cluster[Symbol.asyncDispose]());

  const theCluster = () => cluster;
  describeJoining(theCluster);
  describePlacement(theCluster);
  describeSharing(theCluster);
  describeEncryption(theCluster);
  describePorts(theCluster);
  describeRotationElsewhere(theCluster);
  describeReplicatedDatabase(theCluster);
  describeLostHost(theCluster);
  describeLastingDatabase(theCluster);
  describeReturn(theCluster);
  describeLeaving(theCluster);
});
