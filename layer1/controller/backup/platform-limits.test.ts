import assert from 'node:assert/strict';
import { test } from 'node:test';
import { processSchema } from '../processes/process.ts';
import type { Process } from '../processes/process.ts';
import { limitsOf, parseLimits, withSetLimits } from './platform-limits.ts';

type Constraints = NonNullable<Process['constraints']>;

const on = (attribute: string, ...values: string[]): Constraints[number] => ({ attribute, operator: 'in', values });

/** Of a `web` process: what is wanted now, what was set, what was given before. */
function constraintsOf(wanted: Constraints | undefined, set: Constraints | undefined, given: Constraints | undefined) {
  const limits = (constraints: Constraints | undefined) => limitsOf({ web: processSchema.parse({ constraints }) });
  const processes = { web: processSchema.parse({ constraints: wanted }) };
  return withSetLimits(processes, { set: limits(set), given: limits(given) })['web']?.constraints;
}

test('an attribute of hosts that people changed is as they have it, every other as the manifest says by now', () => {
  const [ssd, nvme, zone, router] = [on('disk', 'ssd'), on('disk', 'nvme'), on('zone', 'a'), on('router', 'yes')];
  assert.deepEqual(constraintsOf([ssd], [nvme], [ssd]), [nvme]);
  assert.deepEqual(constraintsOf([on('disk', 'hdd')], [nvme], [ssd]), [nvme]);
  assert.deepEqual(constraintsOf([on('disk', 'hdd')], [ssd], [ssd]), [on('disk', 'hdd')]);
  assert.deepEqual(constraintsOf([router], [zone], undefined), [router, zone]);
  assert.deepEqual(constraintsOf([ssd, router], [], [ssd]), [router], 'one that was given up stays given up');
  assert.deepEqual(constraintsOf([ssd], [], [ssd]), []);
  assert.deepEqual(constraintsOf(undefined, undefined, [ssd]), undefined);
  assert.deepEqual(constraintsOf([ssd, zone], [zone, ssd], [ssd, zone]), [zone, ssd], 'another order is no change');
});

test('a type that was not given before is as the manifest says, and one that it has no more is gone', () => {
  const processes = { web: processSchema.parse({ memoryBytes: 1 }) };
  const set = limitsOf({ web: { memoryBytes: 2 }, worker: { memoryBytes: 3 } });
  assert.deepEqual(withSetLimits(processes, { set }), processes);
  assert.deepEqual(withSetLimits(processes, { set, given: limitsOf({ worker: {} }) }), processes);
});

test('what was written down is read, and what does not tell is nothing', () => {
  const limits = limitsOf({ web: { memoryBytes: 5, cpuMillis: 6 } });
  assert.deepEqual(parseLimits(JSON.stringify(limits)), limits);
  for (const text of [undefined, '', '{', '[]', '{"web":1}']) assert.equal(parseLimits(text), undefined);
});
