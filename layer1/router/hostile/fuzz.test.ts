/** A few seconds of the fuzzer beside llhttp; fuzz.ts runs for longer. */
import { test } from 'node:test';
import { drivers } from './drivers.ts';
import { fuzzed } from './fuzz-fixture.ts';
import { openLlhttp } from './proxies.ts';

const seed = 20_260_101;

for (const { name } of drivers) {
  for (const hosts of ['one host', 'all hosts'] as const) {
    test(`${name}: 1,000 mutated messages to a route for ${hosts} are split as llhttp splits them (seed ${seed})`, async (t) => {
      await using open = await openLlhttp();
      await fuzzed(t, { driver: name, hosts, judges: open.judges, seed, count: 1_000 });
    });
  }
}
