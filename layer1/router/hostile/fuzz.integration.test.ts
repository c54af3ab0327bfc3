/** The same beside nginx and HAProxy of Debian. */
import { test } from 'node:test';
import { drivers } from './drivers.ts';
import { fuzzed } from './fuzz-fixture.ts';
import { openJudges } from './proxies.ts';

const image = process.env['FLYNN_TEST_PROXIES_IMAGE'] ?? '';
const seed = 20_260_102;

for (const { name } of drivers) {
  test(`${name}: 5,000 mutated messages are split as llhttp, nginx and HAProxy split them (seed ${seed})`, async (t) => {
    await using open = await openJudges({ image });
    await fuzzed(t, { driver: name, judges: open.judges, seed, count: 5_000 });
  });
}
