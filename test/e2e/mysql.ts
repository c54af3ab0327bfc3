import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { Checkout } from '../checkout.ts';
import type { TestCluster } from '../test-cluster.ts';
import { longMs } from './guestbook.ts';

const database = 'ledger-mysql';

export function describeMysql(theCluster: () => TestCluster): void {
  let app: Checkout;

  const untilSays = (path: string, body: string) =>
    waitFor(
      async () => {
        const answer = await app.get(path);
        return answer.status === 200 && answer.body === body;
      },
      { what: `the ledger to say ${JSON.stringify(body)}`, deadlineMs: longMs, intervalMs: 200 },
    );
  const query = async (sql: string) =>
    (await app.flynn(['mysql', 'console', '--sql', sql, '--', '--batch', '--skip-column-names'])).stdout;

  test('an app gets a MySQL, and what it wrote is read by a console', async () => {
    app = await theCluster().checkout('ledger');
    await app.push();
    await app.flynn(['resource', 'add', 'mysql']);
    await untilSays('/?line=first', 'first\n');
    assert.equal(await query('SELECT text FROM lines_read'), 'first\n');
  });

  test('what it wrote is there when a member that died is back, comes back from a file, and goes with it', async () => {
    const cluster = theCluster();
    await app.flynn(['mysql', 'dump', '-o', 'ledger.sql.gz']);
    const [container = ''] = await cluster.containers(database, 'mysql');
    await cluster.dockerOf(cluster.host, 'kill', container);
    await untilSays('/', 'first\n');
    await query('DROP VIEW lines_read; DELETE FROM lines_written');
    await app.write('wrong.sql', 'CREATE TABLE half (id INT);\nand nothing of the kind;\n');
    await app.flynn(['mysql', 'restore', 'wrong.sql', '-y'], { code: 1 });
    assert.equal(await query('SHOW TABLES'), 'lines_written\n');
    const restored = await app.flynn(['mysql', 'restore', 'ledger.sql.gz', '-y']);
    assert.match(restored.stdout, /^Restored ledger-mysql from ledger\.sql\.gz: \d tables?, /);
    await untilSays('/', 'first\n');
    const all = JSON.parse((await app.flynn(['resource', '--json'])).stdout) as { id: string; provider: string }[];
    await app.flynn(['resource', 'remove', all.find(({ provider }) => provider === 'mysql')?.id ?? '', '-y']);
    await waitFor(async () => (await cluster.containers(database, 'mysql')).length === 0, {
      what: 'its container to go',
      deadlineMs: longMs,
      intervalMs: 500,
    });
    await app.flynn(['delete', '-y']);
  });
}
