import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { ReachedHost, ShownNetwork } from './api.ts';
import { changeEncryption } from './change-encryption.ts';
import type { Encryption } from './encryption.ts';

/** Hosts that follow at the second look; `deaf` is whom h1 does not hear. */
function clusterAt(begun: Encryption, { deaf, away = [] }: { deaf?: string; away?: string[] } = {}) {
  const ids = ['h1', 'h2', 'h3'];
  const said: string[] = [];
  let wanted = begun;
  const looks = new Map<string, number>();
  const reached = (id: string): ReachedHost[] =>
    ids
      .filter((one) => one !== id)
      .map((hostId) => ({ hostId, way: 'direct', isHeard: !(id === 'h1' && hostId === deaf) }));
  const ports = {
    hosts: async () => ids.map((id) => ({ id, isAway: away.includes(id) })),
    read: async () => wanted,
    set: async (next: Encryption) => {
      wanted = next;
      said.push(`set ${next}`);
      looks.clear();
    },
    show: async (id: string): Promise<ShownNetwork> => {
      const look = (looks.get(id) ?? 0) + 1;
      looks.set(id, look);
      if (look === 1) return { encryption: begun, hosts: reached(id) };
      said.push(`${id} follows`);
      return { encryption: wanted, hosts: reached(id) };
    },
    report: () => {},
  };
  const change = (to: 'on' | 'off') =>
    changeEncryption(to, ports, { signal: AbortSignal.timeout(20_000), deadlineMs: 300, intervalMs: 5 });
  return { change, sets: () => said.filter((line) => line.startsWith('set')), said };
}

const steps = (...names: string[]) => names.map((name) => `set ${name}`);

test('it is taken on step by step, each after all hosts have followed the one before, and back in the other order', async () => {
  const cluster = clusterAt('off');
  await cluster.change('on');
  assert.deepEqual(cluster.sets(), steps('ready', 'sent', 'on'));
  for (const step of ['sent', 'on']) {
    const before = cluster.said.slice(0, cluster.said.indexOf(`set ${step}`)).slice(-3);
    assert.deepEqual(before.toSorted(), ['h1 follows', 'h2 follows', 'h3 follows']);
  }
  const back = clusterAt('on');
  await back.change('off');
  assert.deepEqual(back.sets(), steps('sent', 'ready', 'off'));
});

test('what is so already stays; what was broken off goes on with the step that it was at', async () => {
  for (const to of ['on', 'off'] as const) {
    const cluster = clusterAt(to);
    await cluster.change(to);
    assert.deepEqual(cluster.said, []);
  }
  const begun = clusterAt('ready');
  await begun.change('on');
  assert.deepEqual(begun.sets(), steps('ready', 'sent', 'on'));
  const halfway = clusterAt('sent');
  await halfway.change('off');
  assert.deepEqual(halfway.sets(), steps('sent', 'ready', 'off'));
});

test('hosts that do not hear each other are named, and all is as before; to end it nobody has to hear anybody', async () => {
  const cluster = clusterAt('off', { deaf: 'h3' });
  await assert.rejects(
    cluster.change('on'),
    (error) =>
      hasCode(error, 'unavailable') && /h1 does not hear h3 .*UDP 1117.*It is as it was before/.test(error.message),
  );
  assert.deepEqual(cluster.sets(), steps('ready', 'off'));
  const back = clusterAt('on', { deaf: 'h3' });
  await back.change('off');
  assert.deepEqual(back.sets(), steps('sent', 'ready', 'off'));
});

test('while a host is away nothing is changed', async () => {
  const cluster = clusterAt('off', { away: ['h2'] });
  await assert.rejects(
    cluster.change('on'),
    (error) => hasCode(error, 'conflict') && error.message.startsWith('h2 is away'),
  );
  assert.deepEqual(cluster.said, []);
});
