import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestCluster } from '../test-cluster.ts';

export function describeAccess(theCluster: () => TestCluster): void {
  test('another person gets in with one line, pushes once they may, and all of it is in the audit trail', async () => {
    const cluster = theCluster();
    const app = await cluster.checkout('static', 'shared');
    await app.push();
    const home = join(cluster.directory, 'ann');
    const key = join(home, 'id_ed25519');
    await cluster.exec(['mkdir', '-p', home]);
    await cluster.exec(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', 'ann', '-f', key]);
    const ssh = `ssh -F none -i ${key} -o IdentitiesOnly=yes -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=${home}/known`;
    const ann = { env: { FLYNN_CONFIG_DIR: join(home, 'config'), HOME: home, GIT_SSH_COMMAND: ssh } };

    const added = await cluster.flynn(['user', 'add', 'ann']);
    const [, line = ''] = /flynn (cluster add \S+ \S+ \S+ --pin \S+)/.exec(added.stdout) ?? [];
    await cluster.flynn(line.split(' '), ann);
    await cluster.flynn(['key', 'add', `${key}.pub`], ann);
    assert.deepEqual(JSON.parse((await cluster.flynn(['apps', '--all', '--json'], ann)).stdout), []);
    await app.write('public/index.html', 'by ann');
    await app.commit('by ann');
    assert.match((await app.push({ ...ann, code: 128 })).stderr, /there is no app "shared"/);

    await cluster.flynn(['access', 'grant', 'ann', 'viewer', '-a', 'shared']);
    assert.match((await app.push({ ...ann, code: 1 })).stderr, /needs the role developer, and ann is viewer on shared/);
    assert.notEqual((await app.get()).body, 'by ann');

    await cluster.flynn(['access', 'grant', 'ann', 'developer', '-a', 'shared']);
    await app.push(ann);
    await app.untilSays('by ann');

    const { stdout } = await cluster.flynn(['audit', '-a', 'shared', '--json'], ann);
    const own = JSON.parse(stdout) as { actor: { name: string } }[];
    assert.ok(own.length > 0 && own.every(({ actor }) => actor.name === 'ann'), 'to others it tells of themselves');
    const trail = JSON.parse((await cluster.flynn(['audit', '-a', 'shared', '--json'])).stdout) as {
      action: string;
      actor: { name: string; sshKey?: string };
      outcome: string;
    }[];
    const pushes = trail.filter(({ action }) => action === 'POST /apps/:app/pushes');
    assert.deepEqual(
      pushes.map(({ actor, outcome }) => [actor.name, outcome]),
      [
        ['ann', 'done'],
        ['ann', 'denied'],
        ['root', 'done'],
      ],
    );
    assert.match(pushes[0]?.actor.sshKey ?? '', /^SHA256:/);
    await cluster.flynn(['user', 'remove', 'ann']);
    assert.match((await cluster.flynn(['apps'], { ...ann, code: 1 })).stderr, /does not know this key/);
    await cluster.flynn(['-a', 'shared', 'delete', '-y'], { cwd: app.directory });
  });
}
