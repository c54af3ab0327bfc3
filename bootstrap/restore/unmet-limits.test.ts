import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limitsOf } from '@flynn/controller/backup/platform-limits';
import { processSchema } from '@flynn/controller/processes/process';
import { type Place, metLimits, unmetText } from './unmet-limits.ts';

const gibibyte = 1024 ** 3;
const host = (id: string, tags: Record<string, string> = {}): Place => ({
  id,
  attributes: tags,
  capacity: { memoryBytes: 4 * gibibyte, cpuMillis: 2_000 },
});
const on = (attribute: string, ...values: string[]) => ({ attribute, operator: 'in' as const, values });
const away = { attribute: 'behind-nat', operator: 'missing' as const, values: [] };

function keptOf(set: object, given: object = { constraints: [away] }) {
  return {
    env: {},
    given: [],
    counts: {},
    limits: limitsOf({ web: processSchema.parse(set) }),
    givenLimits: limitsOf({ web: processSchema.parse(given) }),
  };
}

test('what people set stays where a host has it, and is as the manifest had it where none has', () => {
  const hosts = [host('new'), host('other', { disk: 'ssd' })];
  const met = (set: object, there = hosts) => metLimits(keptOf(set), there)['web'];
  assert.deepEqual(met({ constraints: [away, on('disk', 'ssd')] })?.constraints, [away, on('disk', 'ssd')]);
  assert.deepEqual(met({ constraints: [on('host', 'gone')] })?.constraints, [away]);
  assert.deepEqual(met({ constraints: [on('disk', 'ssd')] }, [host('new')])?.constraints, [away]);
  assert.deepEqual(met({ constraints: [on('disk', 'ssd'), on('host', 'new')] })?.constraints, [away], 'of one host');
  assert.equal(met({ memoryBytes: 3 * gibibyte })?.memoryBytes, 3 * gibibyte);
  assert.equal(met({ memoryBytes: 8 * gibibyte })?.memoryBytes, gibibyte);
  assert.equal(met({ cpuMillis: 4_000 })?.cpuMillis, 1_000);
  const distinct = { attribute: 'host', operator: 'distinct' as const, values: [] };
  assert.deepEqual(met({ constraints: [distinct] })?.constraints, [distinct]);
});

test('of what a backup does not tell apart from the manifest all stays', () => {
  const { limits } = keptOf({ constraints: [on('host', 'gone')], memoryBytes: 8 * gibibyte });
  assert.deepEqual(metLimits({ limits }, [host('new')]), limits);
  assert.deepEqual(metLimits({}, [host('new')]), {});
});

test('people are told what to type for what no host has', () => {
  const apps = {
    'log-aggregator': keptOf({ constraints: [on('disk', 'ssd'), { ...away, attribute: 'old' }] }),
    controller: keptOf({ memoryBytes: 8 * gibibyte, cpuMillis: 4_000, constraints: [away] }),
    router: keptOf({ constraints: [away] }),
  };
  const text = unmetText({ apps }, [host('new')]);
  assert.match(text, /^\nNo host here[^]*:\n\n {2}flynn -a log-aggregator constraint set web 'disk=ssd' '!old'\n/);
  assert.match(text, / {2}flynn -a controller limit set web memory=8192MB cpu=4000\n$/);
  assert.doesNotMatch(text, /router|controller constraint/);
  assert.equal(
    unmetText({ apps }, [
      { ...host('new', { disk: 'ssd' }), capacity: { memoryBytes: 9 * gibibyte, cpuMillis: 9_000 } },
    ]),
    '',
  );
});
