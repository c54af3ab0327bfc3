/**
 * `node layer1/router/hostile/storm.ts --minutes 5 [--seed N]`: clients and backends that are all hostile, over HTTP/1 and HTTP/2,
 * in clear and over TLS. Ends with 1 if anything was thrown that nobody caught: that ends a router.
 */
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import type { Owner } from '../testing.ts';
import { storm } from './storm-fixture.ts';

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '1' }, seed: { type: 'string', default: String(randomInt(2 ** 31)) } },
});
const endsMs = performance.now() + Number(values.minutes) * 60_000;
const thrown = new Map<string, number>();
process.on('uncaughtException', (error: unknown) => {
  // The same is thrown from many ways there.
  const what = error instanceof Error ? String(error.stack).split('\n', 8).join('\n') : String(error);
  thrown.set(what, (thrown.get(what) ?? 0) + 1);
});
process.stdout.write(`seed ${values.seed}\n`);
await using ending = new AsyncDisposableStack();
const owner: Owner = { after: (end) => ending.defer(end) };
const visits = await storm(owner, { seed: Number(values.seed), isOver: () => performance.now() > endsMs });
for (const [what, times] of thrown) process.stdout.write(`THROWN ${times} times: ${what}\n`);
process.stdout.write(`${visits} clients, ${thrown.size} kinds of throws\n`);
process.exitCode = thrown.size > 0 ? 1 : 0;
