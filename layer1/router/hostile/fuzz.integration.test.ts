/** The same beside nginx and HAProxy of Debian. */
import { test } from 'node:test';
import { drivers } from './drivers.ts';
import { fuzzed } from './fuzz-fixture.ts';
import { openJudges } from './proxies.ts';

const image = process.env['FLYNN_TEST_PROXIES_IMAGE'] ?? '';
const seed = 20_260_102;

for (const { name } of drivers) {
  for (const hosts of ['one host', 'all hosts'] as const) {
    const what = `${name}: 2,500 messages to a route for ${hosts}: split as by llhttp, nginx, HAProxy (seed ${seed})`;
    // On a busy machine many messages are tried anew, with more patience.
    test(what, { timeout: 1_200_000 }, async (t) => {
      await using open = await openJudges({ image });
      await fuzzed(t, { driver: name, hosts, judges: open.judges, seed, count: 2_500 });
    });
  }
}
