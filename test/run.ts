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
import { ensureTestImages } from './images.ts';
import { Leftovers } from './leftovers.ts';

/** `timeoutMs` is for a test, `fileMs` for all of a file. */
type Suite = {
  name: string;
  pattern: string;
  needsImages: boolean;
  concurrency: number;
  timeoutMs: number;
  fileMs: number;
  /** Runs only when it is named. */
  isForAsking?: boolean;
};

const suites: readonly Suite[] = [
  { name: 'unit', pattern: '.test.ts', needsImages: false, concurrency: 2, timeoutMs: 120_000, fileMs: 300_000 },
  {
    name: 'integration',
    pattern: '.integration.test.ts',
    needsImages: true,
    concurrency: 1,
    timeoutMs: 300_000,
    fileMs: 900_000,
  },
  { name: 'e2e', pattern: '.e2e.test.ts', needsImages: true, concurrency: 1, timeoutMs: 900_000, fileMs: 900_000 },
  { name: 'chaos', pattern: '.chaos.test.ts', needsImages: true, concurrency: 1, timeoutMs: 900_000, fileMs: 900_000 },
  {
    name: 'long',
    pattern: '.long.test.ts',
    needsImages: true,
    concurrency: 1,
    timeoutMs: 1_800_000,
    fileMs: 1_800_000,
    isForAsking: true,
  },
];

function suiteOf(file: string): string {
  return suites.findLast((suite) => file.endsWith(suite.pattern))?.name ?? '';
}

const all = globSync('{layer0,layer1,bootstrap,cli,test}/**/*.test.ts', {
  exclude: (name) => name.includes('node_modules') || name.startsWith('test/apps'),
}).sort();

// Each file is a process of its own, and most of what it compiles the one before it compiled too.
process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, '..', 'node_modules', '.cache', 'node-compile');

const { values: flags, positionals } = parseArgs({ options: { only: { type: 'string' } }, allowPositionals: true });
const [wanted, ...paths] = positionals;
if (wanted !== undefined && !suites.some((suite) => suite.name === wanted)) {
  process.stderr.write(`npm test: no suite "${wanted}"; there are ${suites.map((suite) => suite.name).join(', ')}\n`);
  process.exit(2);
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

for (const suite of suites) {
  if (wanted === undefined ? suite.isForAsking : wanted !== suite.name) continue;
  const files = all
    .filter((file) => suiteOf(file) === suite.name)
    .filter(
      (file) =>
        paths.length === 0 ||
        paths.some((path) => file.startsWith(path) || file === `test/chaos/${path}${suite.pattern}`),
    );
  if (files.length === 0) continue;
  if (suite.needsImages) {
    Object.assign(process.env, await ensureTestImages());
    leftovers.lookAtEngine();
  }
  process.env['TMPDIR'] = leftovers.folder;
  process.env['FLYNN_TEST_FILE_MS'] = String(suite.fileMs);
  const stream = run({
    files,
    concurrency: suite.concurrency,
    timeout: suite.timeoutMs,
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
const isTold = new Promise((resolve) => report.once('end', resolve));
events.end();
await isTold;
const left = await leftovers.find();
if (left.length > 0) {
  process.stderr.write(`npm test: the suites left behind: ${left.join(', ')}\n`);
  hasFailed = true;
}
process.exitCode = hasFailed || (totals.get('tests') ?? 0) === 0 ? 1 : 0;
