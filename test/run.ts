/**
 * `npm test [-- SUITE [PATH…] [--only TEXT]]`: the checks, then every suite, under one reporter and one summary. With
 * `--only` the tests whose names have the text (a pattern, as of a regular expression).
 *
 * Suites: `unit` (pure, no Docker), `integration` (real etcd, Docker, git, ssh), `e2e` (a whole cluster in network
 * namespaces, driven through git and bin/flynn), `chaos` (three hosts of one, and what can go wrong with them), `long`
 * (`npm run chaos`: more of that, only when it is asked for; PATH may be the name alone). Images and the Docker engine are
 * made ready only when a suite needs them.
 */
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { parseArgs } from 'node:util';
import { groupsOf, writeGroups } from './groups.ts';
import { ensureHostImages, ensureTestImages } from './images.ts';
import { Leftovers } from './leftovers.ts';
import { closedFolderOf, runInCopy } from './reachable.ts';
import { startOrder } from './start-order.ts';

/**
 * Suites that run together. `concurrency`: so many processes at a time; tests wait more than they work, and where engines and
 * stores are real, four take half the time of two on two cores. `timeoutMs` is for a test, `processMs` for all of a process,
 * which has one file or a group of them.
 */
type Batch = {
  suites: readonly string[];
  isGrouped?: boolean;
  needsImages: boolean;
  hasClusters?: boolean;
  concurrency: number;
  timeoutMs: number;
  processMs: number;
  /** Runs only when it is named. */
  isForAsking?: boolean;
};

const batches: readonly Batch[] = [
  { suites: ['unit'], isGrouped: true, needsImages: false, concurrency: 5, timeoutMs: 120_000, processMs: 600_000 },
  { suites: ['integration'], needsImages: true, concurrency: 4, timeoutMs: 300_000, processMs: 1_800_000 },
  // A cluster has work for two cores: two at a time take as long, and starve each other.
  {
    suites: ['e2e', 'chaos'],
    needsImages: true,
    hasClusters: true,
    concurrency: 1,
    timeoutMs: 3_600_000,
    processMs: 3_600_000,
  },
  {
    suites: ['long'],
    needsImages: true,
    hasClusters: true,
    concurrency: 1,
    timeoutMs: 1_800_000,
    processMs: 1_800_000,
    isForAsking: true,
  },
];
const suites = batches.flatMap((batch) => batch.suites);

const patternOf = (suite: string): string => (suite === 'unit' ? '.test.ts' : `.${suite}.test.ts`);

function suiteOf(file: string): string {
  return suites.findLast((suite) => file.endsWith(patternOf(suite))) ?? '';
}

const all = globSync('{layer0,layer1,bootstrap,cli,test}/**/*.test.ts', {
  exclude: (name) => name.includes('node_modules') || name.startsWith('test/apps'),
}).sort();

const { values: flags, positionals } = parseArgs({ options: { only: { type: 'string' } }, allowPositionals: true });
const [wanted, ...paths] = positionals;
if (wanted !== undefined && !suites.includes(wanted)) {
  process.stderr.write(`npm test: no suite "${wanted}"; there are ${suites.join(', ')}\n`);
  process.exit(2);
}

const checkout = join(import.meta.dirname, '..');
const closed = closedFolderOf(checkout);
if (closed !== undefined && wanted !== 'unit') {
  process.stdout.write(`Others may not enter ${closed}, and tests build as a user of their own: they run in a copy\n`);
  process.exit(await runInCopy(checkout, 'test/run.ts', { args: process.argv.slice(2), copies: '/var/tmp' }));
}

// Each file is a process of its own, and most of what it compiles the one before it compiled too.
process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, '../node_modules/.cache/node-compile');

function isAsked(file: string, suite: string): boolean {
  if (paths.length === 0) return true;
  return paths.some((path) => file.startsWith(path) || file === `test/chaos/${path}${patternOf(suite)}`);
}

let hasFailed = false;
if (wanted === undefined) {
  hasFailed = spawnSync(process.execPath, ['test/check.ts'], { stdio: 'inherit' }).status !== 0;
}

/** Each run reports its own totals as diagnostics; they are summed here and told once, at the end. */
const totals = new Map<string, number>();
const totalLine = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) ([\d.]+)$/;

const events = new PassThrough({ objectMode: true });
const report = events.compose(new spec());
report.pipe(process.stdout);

using leftovers = new Leftovers();

// Processes of tests are told, and take away what they made; a second Ctrl-C ends this one without waiting for that.
const ending = new AbortController();
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => ending.abort());

const runs = batches
  .filter((batch) => (wanted === undefined ? batch.isForAsking !== true : batch.suites.includes(wanted)))
  .map((batch) => ({
    batch,
    files: batch.suites
      .filter((suite) => wanted === undefined || wanted === suite)
      .flatMap((suite) => all.filter((file) => suiteOf(file) === suite && isAsked(file, suite))),
  }))
  .filter(({ files }) => files.length > 0);

process.env['TMPDIR'] = leftovers.folder;
process.env['FLYNN_TEST_RUN'] = leftovers.run;
// They are made ready beside the unit tests, which leave a processor half idle; what goes wrong is told where they are needed.
const images = runs.some(({ batch }) => batch.needsImages) ? ensureTestImages() : undefined;
images?.catch(() => undefined);
const hasClusters = runs.some(({ batch }) => batch.hasClusters === true);
// The first cluster makes them itself if this fails, and says why it cannot.
const hostImages = hasClusters ? images?.then(ensureHostImages).catch(() => undefined) : undefined;

for (const { batch, files } of runs) {
  if (ending.signal.aborted) break;
  if (batch.needsImages) {
    Object.assign(process.env, await images);
    leftovers.lookAtEngine();
  }
  if (batch.hasClusters === true) await hostImages;
  process.env['FLYNN_TEST_PROCESS_MS'] = String(batch.processMs);
  const stream = run({
    files: batch.isGrouped ? writeGroups(groupsOf(files), leftovers.folder) : startOrder(files),
    concurrency: batch.concurrency,
    timeout: batch.timeoutMs,
    signal: ending.signal,
    ...(flags.only === undefined ? {} : { testNamePatterns: [flags.only] }),
    execArgv: ['--disable-warning=ExperimentalWarning', '--import', join(import.meta.dirname, 'ends.ts')],
  });
  for await (const event of stream) {
    if (event.type === 'test:diagnostic' && event.data.nesting === 0) {
      const [, name, value] = totalLine.exec(event.data.message) ?? [];
      if (name !== undefined && value !== undefined) {
        totals.set(name, (totals.get(name) ?? 0) + Number(value));
        continue;
      }
    }
    // A summary of one file or one run among several would only be taken for the whole.
    if (event.type === 'test:summary') continue;
    if (event.type === 'test:fail') hasFailed = true;
    if (!events.write(event)) await new Promise((resolve) => events.once('drain', resolve));
  }
}

for (const [name, value] of totals) {
  events.write({
    type: 'test:diagnostic',
    data: { nesting: 0, message: `${name} ${name === 'duration_ms' ? value.toFixed(0) : value}`, level: 'info' },
  });
}
await hostImages;
const isTold = new Promise((resolve) => report.once('end', resolve));
events.end();
await isTold;
const stuck = ending.signal.aborted ? leftovers.removeFromEngine() : undefined;
if (stuck !== undefined) process.stderr.write(`npm test: what the suites have in the engine stays: ${stuck}\n`);
const left = await leftovers.find();
if (left.length > 0) {
  process.stderr.write(`npm test: the suites left behind: ${left.join(', ')}\n`);
  hasFailed = true;
}
process.exitCode = ending.signal.aborted || hasFailed || (totals.get('tests') ?? 0) === 0 ? 1 : 0;
