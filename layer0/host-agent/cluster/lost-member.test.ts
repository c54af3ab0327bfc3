import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMemoryStore } from '@flynn/store/memory';
import { replaceMember } from './lost-member.ts';
import { memberKey } from './member-keys.ts';

const member = (index: number, state: string) => ({
  put: memberKey(`h${index}`),
  value: JSON.stringify({ address: `192.0.2.${index}`, state, memberId: String(index) }),
});

test('a member is replaced also where another host came first in its place: nobody waits for what does not come', async (t) => {
  await using store = createMemoryStore();
  await store.transact({ then: [member(1, 'voter'), member(2, 'voter'), member(4, 'lost')] });
  const said: string[] = [];
  const replaced = replaceMember(store, 'h4', {
    tls: undefined,
    report(line) {
      said.push(line);
      void store.transact({ then: [{ delete: memberKey('h4') }, member(3, 'voter')] });
    },
    signal: AbortSignal.any([t.signal, AbortSignal.timeout(60_000)]),
  });
  assert.equal(await replaced, 'another host');
  assert.deepEqual(said, ['going on with what was begun']);
});
