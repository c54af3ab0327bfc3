import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { ReachedHost, ShownNetwork } from './api.ts';
import { changeEncryption } from './change-encryption.ts';
import type { Encryption, EncryptionWord } from './encryption.ts';

type Kind = {
  deaf?: string;
  away?: string[];
  /** What the store says, where it is not what hosts carry out. */
  word?: EncryptionWord;
  /** What a single host carries out. */
  differing?: Readonly<Record<string, Encryption>>;
  /** Whose agent just began, and has carried out nothing. */
  begun?: string;
  /** Whose agent is of before the word could be unreadable: it takes that for off. */
  former?: string;
  /** Who cannot carry out anything, and says why. */
  stuck?: string;
};

/** Hosts that follow at the second look; `deaf` is whom h1 does not hear. */
function clusterAt(
  begun: Encryption,
  { deaf, away = [], word = begun, differing = {}, begun: fresh, former, stuck }: Kind = {},
) {
  const ids = ['h1', 'h2', 'h3'];
  const said: string[] = [];
  let wanted: EncryptionWord = word;
  let carriedOut = begun;
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
      carriedOut = next;
      said.push(`set ${next}`);
      looks.clear();
    },
    show: async (id: string): Promise<ShownNetwork> => {
      const look = (looks.get(id) ?? 0) + 1;
      looks.set(id, look);
      if (id === stuck) return { encryption: begun, problems: ['there is no table raw'], hosts: reached(id) };
      const isUnreadable = wanted === 'unreadable';
      if (isUnreadable && id === fresh) return { isUnreadable, hosts: [] };
      if (isUnreadable && id === former) return { encryption: 'off', hosts: reached(id) };
      if (look === 1) {
        const told = isUnreadable ? { isUnreadable } : {};
        return { encryption: differing[id] ?? begun, ...told, hosts: reached(id) };
      }
      said.push(`${id} follows`);
      return { encryption: carriedOut, hosts: reached(id) };
    },
    report: () => {},
  };
  const change = (to: 'on' | 'off', { deadlineMs = 60_000 } = {}) =>
    changeEncryption(to, ports, { signal: AbortSignal.timeout(100_000), deadlineMs, intervalMs: 5 });
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

test('what is so already stays; a host that has not followed the last step is waited for', async () => {
  for (const to of ['on', 'off'] as const) {
    const cluster = clusterAt(to);
    await cluster.change(to);
    assert.deepEqual(cluster.said, []);
    const other = to === 'on' ? 'sent' : 'ready';
    const late = clusterAt(to, { differing: { h2: other } });
    await late.change(to);
    assert.deepEqual(late.sets(), []);
    assert.ok(late.said.includes('h2 follows'));
  }
});

const halfway = [
  { at: 'ready', to: 'on', then: ['ready', 'sent', 'on'] },
  { at: 'ready', to: 'off', then: ['ready', 'off'] },
  { at: 'sent', to: 'on', then: ['sent', 'on'] },
  { at: 'sent', to: 'off', then: ['sent', 'ready', 'off'] },
] as const;
for (const { at, to, then } of halfway) {
  test(`a change that was left at "${at}" becomes ${to} by ${then.join(', ')}`, async () => {
    const cluster = clusterAt(at);
    await cluster.change(to);
    assert.deepEqual(cluster.sets(), steps(...then));
  });
}

test('a change that is gone on with, and where hosts do not hear each other, ends: it says that it is off', async () => {
  const cluster = clusterAt('ready', { deaf: 'h3' });
  await assert.rejects(
    cluster.change('on', { deadlineMs: 500 }),
    (error) => hasCode(error, 'unavailable') && error.message.endsWith('Encryption is off now'),
  );
  assert.deepEqual(cluster.sets(), steps('ready', 'off'));
});

test('in the place of a word that cannot be read is written what hosts keep to, and gone on from there', async () => {
  for (const { at, to, then } of [
    { at: 'on', to: 'on', then: ['on'] },
    { at: 'on', to: 'off', then: ['on', 'sent', 'ready', 'off'] },
    { at: 'off', to: 'on', then: ['off', 'ready', 'sent', 'on'] },
    { at: 'off', to: 'off', then: ['off'] },
    { at: 'sent', to: 'on', then: ['sent', 'sent', 'on'] },
  ] as const) {
    const cluster = clusterAt(at, { word: 'unreadable' });
    await cluster.change(to);
    assert.deepEqual(cluster.sets(), steps(...then), `${at} to ${to}`);
  }
  // One that has just come knew nothing, and took it for on.
  const joined = clusterAt('off', { word: 'unreadable', differing: { h3: 'on' } });
  await joined.change('off');
  assert.deepEqual(joined.sets(), steps('off'));
});

test('to encrypt a cluster whose word cannot be read never has it send in clear, whatever a single host shows', async () => {
  for (const kind of [{ begun: 'h2' }, { former: 'h2' }] as const) {
    const cluster = clusterAt('on', { word: 'unreadable', ...kind });
    await cluster.change('on');
    assert.deepEqual(cluster.sets(), steps('on'), JSON.stringify(kind));
  }
  for (const kept of ['off', 'ready'] as const) {
    const cluster = clusterAt('on', { word: 'unreadable', differing: { h2: kept } });
    await cluster.change('on');
    assert.deepEqual(cluster.sets(), steps('sent', 'sent', 'on'), kept);
  }
  const back = clusterAt('on', { word: 'unreadable', begun: 'h2' });
  await back.change('off');
  assert.deepEqual(back.sets(), steps('on', 'sent', 'ready', 'off'));
});

test('hosts that do not hear each other are named, and all is as before; to end it nobody has to hear anybody', async () => {
  const cluster = clusterAt('off', { deaf: 'h3' });
  await assert.rejects(
    cluster.change('on', { deadlineMs: 3_000 }),
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

test('of a host that does not follow is told what it cannot carry out', async () => {
  const cluster = clusterAt('off', { stuck: 'h3' });
  await assert.rejects(
    cluster.change('on', { deadlineMs: 50 }),
    (error) =>
      hasCode(error, 'unavailable') && /h3 has not followed yet: there is no table raw. It is as/.test(error.message),
  );
});
