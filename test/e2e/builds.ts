/** Builds of other languages than Node.js, and builds that take more than they may, on a real cluster. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestCluster } from '../test-cluster.ts';

/** Discovery is at the gateway of its network, which the kernel tells in hexadecimal, the last byte first. */
const curious = `#!/bin/bash
gateway=$(awk '$2 == "00000000" { print $3; exit }' /proc/net/route)
url=http://$((16#\${gateway:6:2})).$((16#\${gateway:4:2})).$((16#\${gateway:2:2})).$((16#\${gateway:0:2})):1111
ask() {
  code=$(curl -s -o /dev/null -w '%{http_code}' -X "$1" -H 'content-type: application/json' \${3:+-d "$3"} "$url$2")
  echo "asked $1 $2: $code"
}
for service in blobstore curious-web nobodys; do
  ask GET /services/$service/instances
  ask PUT /services/$service/instances/forged '{"address":"192.0.2.1:80"}'
  ask PUT /services/$service/leader '{"by":"manual","instance":"forged"}'
  ask PUT /services/$service/meta '{"data":1}'
  ask DELETE /services/$service/instances/forged
done
`;

export function describeBuilds(theCluster: () => TestCluster): void {
  test('a Python app is built out of Debian’s packages and answers', async () => {
    const app = await theCluster().checkout('python');
    const { stderr } = await app.push();
    assert.match(stderr, /-----> Python app detected/);
    assert.match((await app.untilAnswers()).body, /^Hello from Python 3\./);
  });

  test('two apps are pushed from one repository: one is a folder of it, the Dockerfile of the other needs all', async () => {
    const cluster = theCluster();
    const app = await cluster.checkout('procfile', 'folder');
    const server = await app.read('server.pl');
    await app.write('apps/web/server.pl', server.replace('from a script', 'from a folder'));
    await app.write('apps/web/Procfile', 'web: perl server.pl\n');
    const lines = ['FROM flynn/slug-runner', 'COPY server.pl /srv/', 'EXPOSE 8080'];
    await app.write('apps/all/all.Dockerfile', `${lines.join('\n')}\n`);
    // Else the one at the top would count.
    await app.write('apps/all/Procfile', 'web: perl /srv/server.pl\n');
    await app.commit('two apps');
    await app.flynn(['build', 'set', '--folder', 'apps/wbe']);
    const wrong = await app.push({ code: 1 });
    assert.match(wrong.stderr, /apps\/wbe, the folder that folder is built from .* is not in commit/);
    await app.flynn(['build', 'set', '--folder', 'apps/web']);
    const { stderr } = await app.push();
    assert.match(stderr, /-----> Building folder from apps\/web\.\.\./);
    assert.equal((await app.untilAnswers()).body, 'Hello from a folder\n');
    await app.flynn(['create', 'of-all', '-r', 'all']);
    await app.flynn(['build', 'set', '--dockerfile', 'apps/all/all.Dockerfile', '-a', 'of-all']);
    const all = await cluster.exec(['git', 'push', 'all', 'main'], { cwd: app.directory, timeoutMs: 600_000 });
    assert.match(all.stderr, /-----> Dockerfile app detected: apps\/all\/all\.Dockerfile/);
    assert.equal((await cluster.untilAnswers('of-all')).body, 'Hello from a script\n');
  });

  test('a build reads in discovery what there is, and changes nothing', async () => {
    const app = await theCluster().checkout('procfile', 'curious');
    await app.write('pack/bin/detect', '#!/bin/sh\necho Curious\n');
    await app.write('pack/bin/compile', curious);
    await app.commit('a buildpack that would be others');
    await app.flynn(['env', 'set', 'BUILDPACK_URL=/app/pack']);
    const { stderr } = await app.push();
    const answers = [...stderr.matchAll(/asked (\S+) (\S+): (\d+)/g)].map(([, ...words]) => words.join(' '));
    const changes = ['blobstore', 'curious-web', 'nobodys'].flatMap((service) => [
      `GET /services/${service}/instances 200`,
      `PUT /services/${service}/instances/forged 403`,
      `PUT /services/${service}/leader 403`,
      `PUT /services/${service}/meta 403`,
      `DELETE /services/${service}/instances/forged 403`,
    ]);
    assert.deepEqual(answers, changes);
    assert.equal((await app.untilAnswers()).body, 'Hello from a script\n');
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
