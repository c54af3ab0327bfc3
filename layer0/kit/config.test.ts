import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { booleanFlag, durationMs, integer, loadConfig, nearestOf, printableConfig, secret } from './config.ts';
import { hasCode, messageOf } from './errors.ts';

const schema = z.object({
  FLYNN_PORT: integer.default(80),
  FLYNN_KEY: secret(),
  FLYNN_OLD_KEY: secret().optional(),
  FLYNN_LONG_KEY: secret().min(4).max(99).optional(),
  FLYNN_TIMEOUT: durationMs.default(5000),
  FLYNN_DEBUG: booleanFlag.default(false),
});

function problemOf(env: Record<string, string>): string {
  try {
    loadConfig(schema, env);
  } catch (error) {
    assert.ok(hasCode(error, 'invalid'));
    return messageOf(error);
  }
  return assert.fail('the configuration was accepted');
}

test('variables are read by the schema, others of the environment are left alone', () => {
  const config = loadConfig(schema, { FLYNN_KEY: 'k', FLYNN_TIMEOUT: '2m', FLYNN_DEBUG: 'true', PATH: '/bin' });
  assert.deepEqual(config, { FLYNN_PORT: 80, FLYNN_KEY: 'k', FLYNN_TIMEOUT: 120_000, FLYNN_DEBUG: true });
});

test('an unknown FLYNN_ variable is refused with the nearest known one', () => {
  const problem = problemOf({ FLYNN_KEY: 'k', FLYNN_PROT: '8' });
  assert.match(problem, /FLYNN_PROT is not a variable of this program: did you mean FLYNN_PORT\?/);
});

test('what the host agent tells every job is not an unknown variable', () => {
  assert.equal(loadConfig(schema, { FLYNN_KEY: 'k', FLYNN_JOB_ID: 'j', FLYNN_APP_NAME: 'a' }).FLYNN_KEY, 'k');
});

test('all problems are told at once, and a missing variable is called missing', () => {
  const problem = problemOf({ FLYNN_PORT: 'many', FLYNN_TIMEOUT: 'soon' });
  assert.match(problem, /FLYNN_PORT: expected a whole number/);
  assert.match(problem, /FLYNN_TIMEOUT: expected a duration like/);
  assert.match(problem, /FLYNN_KEY is required and not set/);
});

test('an empty variable counts as not set', () => {
  assert.match(problemOf({ FLYNN_KEY: '' }), /FLYNN_KEY is required and not set/);
  assert.equal(loadConfig(schema, { FLYNN_KEY: 'k', FLYNN_PORT: '' }).FLYNN_PORT, 80);
});

test('secrets are printed as stars, also behind optional and with rules of their own', () => {
  const config = loadConfig(schema, { FLYNN_KEY: 'hidden', FLYNN_OLD_KEY: 'older', FLYNN_LONG_KEY: 'longest' });
  const printed = printableConfig(schema, config);
  assert.equal(printed['FLYNN_KEY'], '***');
  assert.equal(printed['FLYNN_OLD_KEY'], '***');
  assert.equal(printed['FLYNN_LONG_KEY'], '***');
  assert.equal(printed['FLYNN_PORT'], 80);
});

test('of a long text, as a certificate is, the beginning is printed', () => {
  const text = `-----BEGIN CERTIFICATE-----\n${'A'.repeat(600)}`;
  const printed = printableConfig(z.object({ FLYNN_CA: z.string(), FLYNN_URL: z.string() }), {
    FLYNN_CA: text,
    FLYNN_URL: 'x'.repeat(120),
  });
  assert.deepEqual(printed, {
    FLYNN_CA: `-----BEGIN CERTIFICATE-----\n${'A'.repeat(12)}… (${text.length} characters)`,
    FLYNN_URL: 'x'.repeat(120),
  });
});

test('durations and numbers are read with their units', () => {
  const table: [string, number][] = [
    ['250ms', 250],
    ['5s', 5000],
    ['10m', 600_000],
    ['2h', 7_200_000],
    ['1d', 86_400_000],
    ['42', 42],
  ];
  for (const [text, ms] of table) assert.equal(durationMs.parse(text), ms);
  for (const text of ['-1s', '1 s', 's', '1w', '']) assert.ok(!durationMs.safeParse(text).success, text);
  assert.equal(integer.parse('-7'), -7);
  assert.ok(!integer.safeParse('1.5').success);
  assert.equal(booleanFlag.parse('off'), false);
});

test('the nearest name is the one with the fewest edits', () => {
  assert.equal(nearestOf('kitten', ['sitting', 'mitten', 'knitting']), 'mitten');
  assert.equal(nearestOf('x', []), undefined);
  assert.equal(nearestOf('nosuch', ['add', 'default', 'remove']), undefined);
  assert.equal(nearestOf('gte', ['get', 'set']), 'get');
});
