import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isSameSecret } from '@flynn/kit/secrets';
import type { LiveKeys } from '@flynn/controller/access/live-keys';
import { serviceOf } from '@flynn/controller/access/service-token';
import { configSchema } from '@flynn/controller/config';
import { hasCode } from '@flynn/kit/errors';
import { loadConfig } from '@flynn/kit/config';
import { checkRotation } from '../bring-up/refusals.ts';
import { imageNames } from '../images/recipes.ts';
import { type SystemApp, manifestOf } from '../platform/manifest.ts';
import { checkRotated, closed, closing, commonRootKey, isOpen, knownRootKeys, rootKeyNews, told } from './rotation.ts';
import { roundsOf, withLiveKeys, withNextRootKey, withNextRound } from './rotation.ts';
import { made } from '../cluster-fixture.ts';
import { type Cluster, clusterSchema, sharedSchema } from '../settings.ts';

const begun = { id: '0199c0de-0000-7000-8000-000000000000', since: new Date(0).toISOString() };

function appsOf(cluster: Cluster): Map<string, SystemApp> {
  const apps = manifestOf({
    cluster,
    images: new Map(imageNames.map((name) => [name, `flynn/${name}:1`])),
    sshHostKey: 'KEY',
    sshHostPublicKey: 'ssh-ed25519 AAAA flynn',
    builderEnv: {},
    hostMemoryBytes: 8e9,
    controllerCertificate: { certificate: 'C', privateKey: 'K' },
  });
  return new Map(apps.map((app) => [app.name, app]));
}

const parts = ['router', 'runner', 'git-receiver', 'log-aggregator'] as const;

/** A controller of this release: what it takes. */
function controllerOf(cluster: Cluster) {
  const env = appsOf(cluster).get('controller')?.env ?? {};
  const {
    FLYNN_TOKEN_ROUNDS: rounds,
    FLYNN_CONTROLLER_KEY: rootKeys,
    FLYNN_DOMAIN: domain,
  } = loadConfig(configSchema, env);
  return {
    live: { domain, rootKeys: [rootKeys[0] ?? '', ...rootKeys.slice(1)], rounds } satisfies LiveKeys,
    takesKey: (key: string) => rootKeys.some((one) => isSameSecret(one, key)),
    takesToken: (part: string, token: string) => serviceOf(token, rootKeys, rounds) === part,
  };
}

function tokenOf(cluster: Cluster, part: string): string {
  return appsOf(cluster).get(part)?.env['FLYNN_CONTROLLER_TOKEN'] ?? '';
}

/** What the controller of the one manifest says to the tokens of the other's parts. */
function takes(controller: Cluster, others: Cluster): boolean {
  const outcomes = parts.map((part) => controllerOf(controller).takesToken(part, tokenOf(others, part)));
  assert.equal(new Set(outcomes).size, 1);
  return outcomes[0] === true;
}

test('while tokens are made anew both are good, afterwards the new ones alone', () => {
  const before = made();
  const during = withNextRound(before);
  const after = closing(during);
  assert.deepEqual([before, during, after].map(roundsOf), [{ round: 0 }, { round: 1, former: 0 }, { round: 1 }]);
  assert.deepEqual([before, during, after].map(isOpen), [false, true, false]);
  assert.equal(takes(before, before), true);
  assert.equal(takes(during, before), true);
  assert.equal(takes(during, during), true);
  assert.equal(takes(after, during), true);
  assert.equal(takes(after, before), false);
  assert.equal(takes(before, during), false);
  assert.equal(after.rootKeyChange, undefined);
  assert.equal(new Set([before, during, after].map(commonRootKey)).size, 1);
});

test('while the root key is made anew both are good with the tokens of both, afterwards the new ones alone', () => {
  const before = made();
  const during = withNextRootKey(before, 'new', begun);
  const after = closing(during);
  const [old, both, alone] = [before, during, after].map(controllerOf);
  assert.ok(old !== undefined && both !== undefined && alone !== undefined);
  const former = before.controllerKey;
  assert.deepEqual(
    [old, both, alone].map(({ takesKey }) => [takesKey(former), takesKey('new')]),
    [
      [true, false],
      [true, true],
      [false, true],
    ],
  );
  assert.deepEqual(
    [takes(during, before), takes(during, during), takes(after, during), takes(after, before), takes(before, during)],
    [true, true, true, false, false],
  );
  // What calls the API shows the former as long as a controller may take that alone, and the new one before one does so.
  assert.deepEqual([before, during, after].map(commonRootKey), [former, former, 'new']);
  assert.deepEqual([before, during, after].map(knownRootKeys), [[former], ['new', former], ['new', former]]);
  const { rootKeyChange, ...rest } = after;
  assert.deepEqual(closed(after), rest);
  assert.equal(rootKeyChange?.isClosing, true);
});

test('nobody is refused at any moment, wherever it is broken off and gone on with', () => {
  const before = made();
  const phases = 8;
  for (let end = 1; end <= phases; end += 1) {
    const world = worldOf(before);
    // The same again and again, broken off one part later than the time before.
    world.up(withNextRootKey(world.file, 'new', begun), end);
    world.up(world.file, end);
    world.up(withNextRootKey(world.file, 'another', begun), end);
    world.up(world.file, phases);
    const [only] = world.controllers;
    assert.ok(only !== undefined && world.controllers.length === 1);
    assert.deepEqual([only.takesKey('new'), only.takesKey(before.controllerKey)], [true, false], `after ${end}`);
    assert.equal(world.peoples, 'new');
    assert.deepEqual(closed(world.file), { ...before, controllerKey: 'new', tokens: { round: 1 } });
  }
});

/** A cluster that goes through what `up` does, in its order; whether all get in is looked at after each part of it. */
function worldOf(before: Cluster) {
  const state = {
    file: before,
    controllers: [controllerOf(before)],
    peoples: before.controllerKey,
    tokens: new Map<string, string>(parts.map((part) => [part, tokenOf(before, part)])),
    up(begunAs: Cluster, end: number): void {
      let left = end;
      const part = (act: () => void): void => {
        if (left <= 0) return;
        left -= 1;
        act();
        check();
      };
      const deployController = (): void => {
        // It is there beside those of before, for a while or, when it is broken off, for longer.
        part(() => (state.controllers = [...state.controllers, controllerOf(state.file)]));
        part(() => (state.controllers = state.controllers.slice(-1)));
      };
      part(() => (state.file = begunAs));
      deployController();
      part(() => (state.peoples = state.file.controllerKey));
      part(() => {
        for (const name of parts) {
          state.tokens.set(name, tokenOf(state.file, name));
          check();
        }
      });
      if (!isOpen(state.file)) return;
      part(() => (state.file = closing(state.file)));
      deployController();
    },
  };
  const check = (): void => {
    for (const { takesKey, takesToken } of state.controllers) {
      assert.ok(takesKey(commonRootKey(state.file)), 'what calls the API from the host');
      assert.ok(takesKey(state.peoples), 'the flynn command of the host');
      for (const [part, token] of state.tokens) assert.ok(takesToken(part, token), part);
    }
  };
  return state;
}

test('a change that was broken off is gone on with, and is nothing that other hosts are told', () => {
  const during = withNextRound(made());
  assert.deepEqual(withNextRound(during), during);
  assert.deepEqual(roundsOf(withNextRound(closing(during))), { round: 2, former: 1 });
  const changing = withNextRootKey(during, 'new', begun);
  assert.deepEqual(roundsOf(changing), { round: 1, former: 0 }, 'of new tokens that are under way it makes use');
  assert.deepEqual(withNextRootKey(changing, 'another', begun), changing);
  assert.deepEqual(withNextRootKey(closing(changing), 'another', begun), closing(changing));
  assert.deepEqual(clusterSchema.parse(JSON.parse(JSON.stringify(changing))), changing);
  for (const field of ['tokens', 'rootKeyChange']) assert.equal(field in sharedSchema.parse(changing), false);
});

test('a store or a file that was put back to an earlier time brings no former key back', () => {
  const before = made();
  const changing = withNextRootKey(before, 'new', begun);
  const after = closed(closing(changing));
  const liveOf = (cluster: Cluster) => controllerOf(cluster).live;
  // In order as it is, or nothing to compare with yet.
  for (const file of [before, changing, closing(changing), after]) {
    assert.deepEqual(withLiveKeys(file, liveOf(file), begun), file);
    assert.deepEqual(withLiveKeys(file, undefined, begun), file);
  }
  assert.deepEqual(withLiveKeys(changing, liveOf(before), begun), changing);
  assert.deepEqual(withLiveKeys(closing(changing), liveOf(changing), begun), closing(changing));

  const again = withLiveKeys(after, liveOf(before), begun);
  assert.equal(again.controllerKey, 'new');
  assert.equal(commonRootKey(again), before.controllerKey);
  assert.ok(takes(again, before) && takes(again, again) && !takes(closing(again), before));

  const taken = withLiveKeys(before, liveOf(after), begun);
  assert.deepEqual(taken, after);
  assert.deepEqual(withLiveKeys(before, liveOf(changing), begun), changing);
});

test('it is refused elsewhere, where there is nothing yet, and before a move to another version', () => {
  const cluster = made();
  checkRotation('root key', cluster);
  const conflict = (pattern: RegExp) => (error: unknown) =>
    hasCode(error, 'conflict') && pattern.test((error as Error).message);
  assert.throws(
    () => checkRotation('root key', undefined),
    conflict(/no cluster here yet.*by npm run up -- --rotate-root-key\./),
  );
  const joined = { ...cluster, hasPlatform: false };
  assert.throws(
    () => checkRotation('root key', joined),
    conflict(/another host keeps the platform of the cluster flynn [^]*: the root key/),
  );
  assert.throws(
    () => checkRotation('sealing key', joined),
    conflict(/the sealing key is.*that keeps it, by .*--rotate-sealing-key\./),
  );
  assert.throws(() => checkRotation('tokens', joined), conflict(/tokens are made anew.*by .*--rotate-tokens\./));
  checkRotated(undefined);
  checkRotated(cluster);
  const changing = withNextRootKey(cluster, 'new', begun);
  for (const file of [changing, closing(changing)]) assert.throws(() => checkRotated(file), conflict(/npm run up/));
});

test('people are told the root key once, at the end of whichever `up` comes to it', () => {
  const onDisk = (cluster: Cluster): Cluster => clusterSchema.parse(JSON.parse(JSON.stringify(cluster)));
  const begun = onDisk(made());
  assert.equal(rootKeyNews(begun), 'first');
  assert.equal('isRootKeyUntold' in sharedSchema.parse(begun), false, 'hosts that join have nothing to tell');
  const through = onDisk(told(begun));
  assert.equal(rootKeyNews(through), 'known');
  const changed = withNextRootKey(through, 'next', { id: 'i', since: new Date(0).toISOString() });
  assert.equal(rootKeyNews(changed), 'new');
  assert.equal(rootKeyNews(told(changed)), 'known');
});
