/** `npm run bench -- push|scale|idle|up [--json]`: figures of the platform, each held against its floor in the same run. */
import { parseArgs } from 'node:util';
import { ensureTestImages } from '../images.ts';
import { TestCluster } from '../test-cluster.ts';
import { table, type Figure } from './figure.ts';
import { benchIdle } from './idle.ts';
import { benchPush } from './push.ts';
import { benchScale } from './scale.ts';
import { benchUp } from './up.ts';

type Bench = (cluster: TestCluster) => Promise<Figure[]>;

/** `up` starts from an engine without images; the others from a cluster that is up. */
const benches: Record<string, { run: Bench; isFromBlank: boolean }> = {
  push: { run: benchPush, isFromBlank: false },
  scale: { run: benchScale, isFromBlank: false },
  idle: { run: benchIdle, isFromBlank: false },
  up: { run: benchUp, isFromBlank: true },
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: 'boolean', default: false } },
});
const [name = ''] = positionals;
const bench = benches[name];
if (bench === undefined || positionals.length !== 1) {
  process.stderr.write(`usage: npm run bench -- ${Object.keys(benches).join('|')} [--json]\n`);
  process.exit(2);
}

await ensureTestImages();
const cluster = await TestCluster.create(2, { hasImages: !bench.isFromBlank });
try {
  if (!bench.isFromBlank) {
    process.stderr.write('bringing up a cluster of its own …\n');
    await cluster.up();
  }
  const figures = await bench.run(cluster);
  process.stdout.write(values.json ? figures.map((f) => `${JSON.stringify(f)}\n`).join('') : `${table(figures)}\n`);
} finally {
  await cluster[Symbol.asyncDispose]();
}
