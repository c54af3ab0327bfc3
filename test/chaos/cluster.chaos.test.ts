/** Faults, one after the other, on one cluster of three hosts. After each: full health, nothing twice, nothing forgotten. */
import { after, before, suite } from 'node:test';
import { TestCluster } from '../test-cluster.ts';
import { describeClock } from './clock.ts';
import { describeDisk } from './disk.ts';
import { describeHosts } from './hosts.ts';
import { describeNetwork } from './network.ts';
import { describeSchedulers } from './schedulers.ts';
import { Stage } from './stage.ts';
import { describeStore } from './store.ts';

/** The place of the host with a disk of its own, and its size: images and containers, and room to fill. */
const disk = { place: 2, bytes: 8 * 1024 ** 3 };

suite('faults on three hosts', () => {
  let cluster: TestCluster;
  let stage: Stage;
  before(async () => {
    // That hosts fetch them from each other is what a suite of its own shows (e2e/joining.ts); here all have them in the end.
    cluster = await TestCluster.create(60, { hosts: 3, haveImages: 'all', diskBytes: { [disk.place]: disk.bytes } });
    await cluster.up();
    stage = await Stage.open(cluster, process.env['FLYNN_TEST_BASE_IMAGE'] ?? '');
  });
  after(async () => {
    await stage?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  });

  const theStage = () => stage;
  describeSchedulers(theStage);
  describeHosts(theStage);
  describeStore(theStage);
  describeNetwork(theStage);
  describeClock(theStage);
  describeDisk(theStage, disk.place);
});
