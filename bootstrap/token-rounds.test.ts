import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serviceOf } from '@flynn/controller/access/service-token';
import { configSchema } from '@flynn/controller/config';
import { loadConfig } from '@flynn/kit/config';
import { type SystemApp, manifestOf } from './manifest.ts';
import { type Cluster, readOptions, settle, sharedSchema } from './settings.ts';
import { roundsOf, withNextRound, withoutFormerRound } from './token-rounds.ts';

function made(): Cluster {
  return settle(readOptions({}), undefined, {
    hostname: 'h1',
    address: '192.0.2.7',
    now: new Date(0),
    newSecret: () => 'secret',
    authority: { certificate: 'CERTIFICATE', privateKey: 'PRIVATE KEY' },
  });
}

function appsOf(cluster: Cluster): Map<string, SystemApp> {
  const names = [
    'controller',
    'blobstore',
    'log-aggregator',
    'runner',
    'slug-builder',
    'slug-runner',
    'git-receiver',
    'router',
  ] as const;
  const apps = manifestOf({
    cluster,
    images: new Map(names.map((name) => [name, `flynn/${name}:1`])),
    sshHostKey: 'KEY',
    sshHostPublicKey: 'ssh-ed25519 AAAA flynn',
    builderEnv: {},
    hostMemoryBytes: 8e9,
    controllerCertificate: { certificate: 'C', privateKey: 'K' },
  });
  return new Map(apps.map((app) => [app.name, app]));
}

/** What the controller of the one manifest says to the tokens of the other's parts. */
function takes(controller: Cluster, parts: Cluster): boolean {
  const env = appsOf(controller).get('controller')?.env ?? {};
  const { FLYNN_TOKEN_ROUNDS: rounds, FLYNN_CONTROLLER_KEY: rootKey } = loadConfig(configSchema, env);
  const outcomes = ['router', 'runner', 'git-receiver', 'log-aggregator'].map((name) => {
    const token = appsOf(parts).get(name)?.env['FLYNN_CONTROLLER_TOKEN'] ?? '';
    return serviceOf(token, rootKey, rounds) === name;
  });
  assert.equal(new Set(outcomes).size, 1);
  return outcomes[0] === true;
}

test('while tokens are made anew both are good, afterwards the new ones alone', () => {
  const before = made();
  const during = withNextRound(before);
  const after = withoutFormerRound(during);
  assert.deepEqual([before, during, after].map(roundsOf), [{ round: 0 }, { round: 1, former: 0 }, { round: 1 }]);
  assert.equal(takes(before, before), true);
  assert.equal(takes(during, before), true);
  assert.equal(takes(during, during), true);
  assert.equal(takes(after, during), true);
  assert.equal(takes(after, before), false);
  assert.equal(takes(before, during), false);
});

test('a round that was broken off is gone on with, and is nothing that other hosts are told', () => {
  const during = withNextRound(made());
  assert.deepEqual(withNextRound(during), during);
  assert.deepEqual(roundsOf(withNextRound(withoutFormerRound(during))), { round: 2, former: 1 });
  assert.equal('tokens' in sharedSchema.parse(during), false);
});
