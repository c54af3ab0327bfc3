/** `npm run check`: types, lint, format, dead code and who imports whom, all of them even when one fails. */
import { spawnSync } from 'node:child_process';
import { styleText } from 'node:util';

const folders = ['layer0', 'layer1', 'bootstrap', 'cli', 'test'];

const checks: readonly { name: string; command: readonly [string, ...string[]] }[] = [
  { name: 'types', command: ['tsc', '-p', '.'] },
  // Pages run in browsers: other globals, and JSX.
  { name: "pages' types", command: ['tsc', '-p', 'layer1/dashboard/web'] },
  { name: 'lint', command: ['oxlint', '--deny-warnings', '--type-aware', ...folders] },
  { name: 'format', command: ['oxfmt', '--check', ...folders] },
  { name: 'dead code', command: ['knip', '--no-progress'] },
  { name: 'architecture', command: ['node', '--disable-warning=ExperimentalWarning', 'test/architecture.test.ts'] },
];

const failed: string[] = [];
for (const { name, command } of checks) {
  const [tool, ...args] = command;
  const startedAt = performance.now();
  const result = spawnSync(`node_modules/.bin/${tool}`, args, { encoding: 'utf8' });
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  const isPassed = result.status === 0;
  process.stdout.write(`${isPassed ? styleText('green', '✔') : styleText('red', '✖')} ${name} (${seconds} s)\n`);
  if (isPassed) continue;
  failed.push(name);
  process.stdout.write(`${result.stdout}${result.stderr}${result.error ? `${result.error.message}\n` : ''}`);
}
if (failed.length > 0) {
  process.stdout.write(`\nfailed: ${failed.join(', ')}. "npm run format" mends the format.\n`);
  process.exit(1);
}
