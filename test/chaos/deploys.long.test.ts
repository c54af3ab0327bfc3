import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { deployUnderLoad } from '../deploys-under-load.ts';
import { TestCluster } from '../test-cluster.ts';

const deploys = 8;

suite('an app is deployed while it is used', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.create(60);
    await cluster.up();
  });
  after(() => cluster?.[Symbol.asyncDispose]());

  test(`${deploys} deploys, and no request, message or connection fails`, async (t) => {
    const { failures, requests, slow, messages, reconnects } = await deployUnderLoad(cluster, deploys);
    t.diagnostic(
      `${requests} short requests, ${slow} long ones, ${messages} messages, ${reconnects} WebSockets opened again`,
    );
    assert.deepEqual(failures, []);
    assert.ok(slow > 0 && messages > 0 && requests > 1_000, 'there was hardly any load');
  });
});
