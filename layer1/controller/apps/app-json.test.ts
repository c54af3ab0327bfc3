import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import * as fc from 'fast-check';
import { appJsonSchema, parseAppJson } from './app-json.ts';

const nothing = { env: {}, formation: {}, healthchecks: {}, cron: [], scripts: {}, buildpacks: [] };

test('an app.json as others write it is read, and what we do not know is left alone', () => {
  const found = parseAppJson(
    `\uFEFF${JSON.stringify({
      name: 'Small Sharp Tool',
      keywords: ['productivity'],
      addons: ['openredis'],
      env: {
        PLAIN: 'text',
        NUMBER: 3,
        SECRET_TOKEN: { description: 'for cookies', generator: 'secret' },
        WEB_CONCURRENCY: { description: 'processes', value: '5' },
        NEEDED: { description: 'an address' },
        OPTIONAL: { required: false },
        MADE: { description: 'The number of processes to run.', generator: 'echo 5' },
        MADE_OR_NOT: { generator: 'echo 5', value: 5, required: true },
        MADE_BY_YOU: { generator: 'echo 5', required: true },
      },
      formation: { web: { quantity: 2, size: 'standard-1x' }, worker: {} },
      healthchecks: {
        web: [{ type: 'startup', name: 'web check', path: '/up', attempts: 4, interval: 2, timeout: 1 }],
      },
      cron: [
        { command: 'rake daily', schedule: '@daily' },
        { command: 'off', schedule: '@daily', maintenance: true },
        { command: 'x', schedule: '* * * * *', concurrency_policy: 'replace', timezone: 'Europe/Berlin' },
      ],
      scripts: { dokku: { predeploy: 'old', postdeploy: 'notify' }, predeploy: 'rake assets', postdeploy: 'seed' },
      buildpacks: [{ url: 'heroku/nodejs' }],
      environments: { test: { scripts: { test: 'x' } } },
    })}`,
  );
  assert.deepEqual(found, {
    env: {
      PLAIN: { is: 'value', value: 'text' },
      NUMBER: { is: 'value', value: '3' },
      SECRET_TOKEN: { is: 'secret' },
      WEB_CONCURRENCY: { is: 'value', value: '5' },
      NEEDED: { is: 'required' },
      OPTIONAL: { is: 'optional' },
      MADE: { is: 'optional', generator: 'echo 5' },
      MADE_OR_NOT: { is: 'value', value: '5' },
      MADE_BY_YOU: { is: 'required' },
    },
    formation: { web: 2 },
    healthchecks: {
      web: [{ type: 'startup', path: '/up', attempts: 4, interval: 2, timeout: 1, initialDelay: 0 }],
    },
    cron: [
      { command: 'rake daily', schedule: '@daily', overlap: 'forbid' },
      { command: 'x', schedule: '* * * * *', overlap: 'replace', timezone: 'Europe/Berlin' },
    ],
    scripts: { predeploy: 'old', postdeploy: 'seed', postdeployEach: 'notify' },
    buildpacks: ['heroku/nodejs'],
  });
  assert.deepEqual(appJsonSchema.parse(JSON.parse(JSON.stringify(found))), found, 'it survives the way to the runner');
});

test('a check as others leave it half empty has their defaults', () => {
  const { healthchecks } = parseAppJson('{"healthchecks":{"web":[{"type":"","attempts":0}]}}');
  assert.deepEqual(healthchecks['web'], [{ type: 'startup', attempts: 3, interval: 5, timeout: 5, initialDelay: 0 }]);
});

test('an empty app.json says nothing', () => {
  assert.deepEqual(parseAppJson('{}'), nothing);
});

const wrong = [
  { text: '{', message: /app\.json is not JSON/ },
  { text: '[]', message: /app\.json: .*expected object/ },
  { text: '{"cron":[{"command":"x"}]}', message: /app\.json: cron\[0\]\.schedule: / },
  { text: '{"cron":[{"command":"x","schedule":"0 0 31 2 *"}]}', message: /app\.json: cron\[0\]: .*never falls due/ },
  { text: '{"formation":{"web":{"quantity":-1}}}', message: /app\.json: formation\.web\.quantity: / },
  { text: '{"env":{"1A":"x"}}', message: /app\.json: env\.1A: / },
  { text: '{"env":{"A":["x"]}}', message: /app\.json: env\.A: .*expected object, received array/ },
  { text: '{"env":{"A":{"value":["x"]}}}', message: /app\.json: env\.A\.value: it is to be a string, a number/ },
  { text: '{"env":{"A":{"generator":1}}}', message: /app\.json: env\.A\.generator: .*expected string/ },
  {
    text: '{"healthchecks":{"web":[{"command":1}]}}',
    message: /app\.json: healthchecks\.web\[0\]\.command: it is to be a command/,
  },
  { text: '{"healthchecks":{"web":[{"path":"up"}]}}', message: /app\.json: healthchecks\.web\[0\]\.path: / },
  { text: '{"scripts":{"predeploy":""}}', message: /app\.json: scripts\.predeploy: / },
];

for (const { text, message } of wrong) {
  test(`${text} is refused naming the place`, () => {
    assert.throws(
      () => parseAppJson(text),
      (error: unknown) => hasCode(error, 'invalid') && message.test(error.message),
    );
  });
}

test('whatever the file holds, it is read or refused as invalid', () => {
  const keys = fc.constantFrom('env', 'formation', 'healthchecks', 'cron', 'scripts', 'buildpacks', 'name');
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.dictionary(keys, fc.jsonValue()).map((value) => JSON.stringify(value)),
      ),
      (text) => {
        try {
          appJsonSchema.parse(parseAppJson(text));
        } catch (error) {
          assert.ok(hasCode(error, 'invalid'), String(error));
        }
      },
    ),
    { numRuns: 500, seed: 7 },
  );
});
