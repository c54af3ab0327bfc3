/** `npm run bench -- NAME [arguments] [--json]`: figures, each held against its floor in the same run. */
import { ensureTestImages } from '../images.ts';
import { TestCluster } from '../test-cluster.ts';
import type { Bench } from './bench.ts';
import { table, type Figure } from './figure.ts';

const benches: Readonly<Record<string, () => Promise<Bench>>> = {
  api: () => import('./api.ts').then(({ bench }) => bench),
  build: () => import('./build.ts').then(({ bench }) => bench),
  push: () => import('./push.ts').then(({ bench }) => bench),
  scale: () => import('./scale.ts').then(({ bench }) => bench),
  agent: () => import('./agent.ts').then(({ bench }) => bench),
  store: () => import('./store.ts').then(({ bench }) => bench),
  discovery: () => import('./discovery.ts').then(({ bench }) => bench),
  idle: () => import('./idle.ts').then(({ bench }) => bench),
  up: () => import('./up.ts').then(({ bench }) => bench),
  conflict: () => import('./conflict.ts').then(({ bench }) => bench),
  commit: () => import('./commit.ts').then(({ bench }) => bench),
  c1m: () => import('./c1m.ts').then(({ bench }) => bench),
  ops: () => import('./ops.ts').then(({ bench }) => bench),
  failover: () => import('./failover.ts').then(({ bench }) => bench),
  'host-loss': () => import('./host-loss.ts').then(({ bench }) => bench),
  outage: () => import('./outage.ts').then(({ bench }) => bench),
  deploys: () => import('./deploys.ts').then(({ bench }) => bench),
  recovery: () => import('./recovery.ts').then(({ bench }) => bench),
  bootstrap: () => import('./bootstrap.ts').then(({ bench }) => bench),
  footprint: () => import('./footprint.ts').then(({ bench }) => bench),
  'cell-memory': () => import('./cell-memory.ts').then(({ bench }) => bench),
  'app-figures': () => import('./app-figures.ts').then(({ bench }) => bench),
  place: () => import('./place.ts').then(({ bench }) => bench),
  logs: () => import('./logs.ts').then(({ bench }) => bench),
  router: () => import('./router.ts').then(({ bench }) => bench),
  install: () => import('./install.ts').then(({ bench }) => bench),
  update: () => import('./update.ts').then(({ bench }) => bench),
  omega: () => import('./omega.ts').then(({ bench }) => bench),
};

const isJson = process.argv.includes('--json');
const [name = '', ...args] = process.argv.slice(2).filter((argument) => argument !== '--json');
const load = benches[name];
if (load === undefined) {
  process.stderr.write(`usage: npm run bench -- ${Object.keys(benches).join('|')} [--json]\n`);
  process.exit(2);
}
const figures = await run(await load());
process.stdout.write(isJson ? figures.map((f) => `${JSON.stringify(f)}\n`).join('') : `${table(figures)}\n`);

async function run(bench: Bench): Promise<Figure[]> {
  if (bench.needs === 'nothing') return bench.run(args);
  Object.assign(process.env, await ensureTestImages());
  const hosts = bench.needs === 'three hosts' || bench.needs === 'prepared hosts' ? (bench.hosts ?? 3) : 1;
  await using cluster = await TestCluster.create(2, {
    hosts,
    haveImages: bench.needs === 'blank host' ? 'none' : 'first',
  });
  if (bench.needs === 'cluster' || bench.needs === 'three hosts') {
    process.stderr.write('bringing up a cluster of its own …\n');
    await cluster.up();
  }
  return await bench.run(cluster, args);
}
