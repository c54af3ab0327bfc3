/** One host, end to end: everything a person does with it, in the order they would, on one real cluster. */
import { after, before, suite } from 'node:test';
import { TestCluster } from '../test-cluster.ts';
import { describeDashboard } from './dashboard.ts';
import { describeDatabase, describeDatabaseRemoval, describeRedis } from './databases.ts';
import { describeDeploys } from './deploys.ts';
import { describeBuilds } from './builds.ts';
import { describeAccess } from './access.ts';
import { describeDomain } from './domain.ts';
import { describeDown } from './down.ts';
import { describeElsewhere } from './elsewhere.ts';
import { describeEnv } from './env.ts';
import { describeOperations } from './operations.ts';
import { describeImages } from './images.ts';
import { describeLogs } from './logs.ts';
import { describePush } from './push.ts';
import { describeRecovery } from './recovery.ts';
import { describeRefusals } from './refusals.ts';
import { describeResources } from './resources.ts';
import { describeRestore } from './restore.ts';
import { describeRotation } from './rotation.ts';
import { describeRoutes } from './routes.ts';
import { describeRun } from './run.ts';
import { describeScale } from './scale.ts';
import { describeUp } from './up.ts';

suite('one host', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.create(1);
  });
  after(() => cluster[Symbol.asyncDispose]());

  const theCluster = () => cluster;
  describeUp(theCluster);
  describePush(theCluster);
  describeDatabase(theCluster);
  describeRedis(theCluster);
  describeRestore(theCluster);
  describeDatabaseRemoval(theCluster);
  describeOperations(theCluster);
  describeBuilds(theCluster);
  describeImages(theCluster);
  describeElsewhere(theCluster);
  describeScale(theCluster);
  describeRoutes(theCluster);
  describeEnv(theCluster);
  describeResources(theCluster);
  describeAccess(theCluster);
  describeRefusals(theCluster);
  describeRun(theCluster);
  describeDashboard(theCluster, { app: 'express' });
  describeDeploys(theCluster);
  describeLogs(theCluster);
  describeRecovery(theCluster);
  describeDomain(theCluster);
  describeRotation(theCluster);
  describeDown(theCluster);
});
