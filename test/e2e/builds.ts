/** Builds of other languages than Node.js, and builds that take more than they may, on a real cluster. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestCluster } from '../test-cluster.ts';

export function describeBuilds(theCluster: () => TestCluster): void {
  test('a Python app is built out of Debian’s packages and answers', async () => {
    const app = await theCluster().checkout('python');
    const { stderr } = await app.push();
    assert.match(stderr, /-----> Python app detected/);
    assert.match((await app.untilAnswers()).body, /^Hello from Python 3\./);
  });

  test('a build that eats memory fails saying so, and another app goes on answering', async () => {
    const other = await theCluster().checkout('python', 'beside');
    await other.push();
    await other.untilAnswers();
    const app = await theCluster().checkout('procfile', 'greedy');
    await app.write('pack/bin/detect', '#!/bin/sh\necho Greedy\n');
    await app.write('pack/bin/compile', `#!/bin/sh\nexec perl -e '$x .= "x" x 1000000 while 1'\n`);
    await app.commit('a buildpack of its own');
    await app.flynn(['env', 'set', 'BUILDPACK_URL=/app/pack']);
    const { stderr } = await app.push({ code: 1 });
    assert.match(stderr, /needed more memory than its limit of/);
    assert.equal((await other.get()).status, 200);
    await app.flynn(['env', 'unset', 'BUILDPACK_URL']);
    await app.push();
    assert.equal((await app.untilAnswers()).body, 'Hello from a script\n');
  });
}
