import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Metrics } from '@flynn/kit/metrics';
import { operationMetrics } from './metrics.ts';

test('operations are counted by kind and end; one that was not begun with is not', async () => {
  const metrics = new Metrics();
  const counts = operationMetrics(metrics, 2);
  await counts.timed('build', async () => 'failed');
  await counts.timed('build', async () => undefined);
  const running = Promise.withResolvers<string>();
  const timed = counts.timed('deploy', () => running.promise);
  assert.match(await metrics.text(), /^flynn_runner_operations_running 1$/m);
  running.resolve('complete');
  await timed;
  const text = await metrics.text();
  assert.match(text, /^flynn_runner_operations_total\{kind="build",state="failed"\} 1$/m);
  assert.match(text, /^flynn_runner_operations_total\{kind="deploy",state="complete"\} 1$/m);
  assert.match(text, /^flynn_runner_operation_duration_seconds_count\{kind="build"\} 1$/m);
  assert.match(text, /^flynn_runner_operations_running 0$/m);
  assert.match(text, /^flynn_runner_slots 2$/m);
});
