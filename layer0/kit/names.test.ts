import assert from 'node:assert/strict';
import { test } from 'node:test';
import { appName, envName, hostTagName, processType, serviceName } from './names.ts';

const table = [
  {
    what: 'app name',
    schema: appName,
    good: ['a', 'my-app', 'a1', `a${'b'.repeat(29)}`],
    bad: ['', 'A', '1a', 'a-', '-a', 'a_b', `a${'b'.repeat(30)}`, 'a\n'],
  },
  {
    what: 'process type',
    schema: processType,
    good: ['web', 'w', 'a_b-1'],
    bad: ['', 'Web', '1', `a${'b'.repeat(30)}`],
  },
  {
    what: 'environment variable name',
    schema: envName,
    good: ['PATH', '_x', 'a1'],
    bad: ['', '1A', 'A-B', 'A=B', 'A B'],
  },
  {
    what: 'tag of a host',
    schema: hostTagName,
    good: ['disk', '0', 'A.b_c-d', 'a'.repeat(64)],
    bad: ['', 'a b', 'ä', 'a'.repeat(65), 'constructor', '__proto__', 'toString'],
  },
  {
    what: 'service name',
    schema: serviceName,
    good: ['postgres', '0', 'my-app-web', 'a'.repeat(63)],
    bad: ['', '-a', 'a-', 'a.b', 'a'.repeat(64)],
  },
];

for (const { what, schema, good, bad } of table) {
  test(`${what}s of the right shape are accepted, others refused with a message that gives an example`, () => {
    for (const name of good) assert.ok(schema.safeParse(name).success, JSON.stringify(name));
    for (const name of bad) {
      const { error } = schema.safeParse(name);
      assert.match(error?.issues[0]?.message ?? '', /like "/, JSON.stringify(name));
    }
  });
}
