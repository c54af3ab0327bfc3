import assert from 'node:assert/strict';
import { it } from 'node:test';
import { loadBundled } from '../bundling-fixture.ts';

type OpenBlocks = () => { add: (items: readonly string[]) => readonly string[]; text: () => string; close: () => void };

it('of a list in blocks only what is new is drawn', async (t) => {
  const { openBlocks } = await loadBundled<{ openBlocks: OpenBlocks }>('parts/blocks-fixture.tsx');
  const list = openBlocks();
  t.after(() => list.close());
  const first = Array.from({ length: 250 }, (_, at) => `${at},`);
  assert.deepEqual(list.add(first), first);
  assert.deepEqual(list.add(['new,']), ['new,']);
  assert.deepEqual(list.add([]), []);
  assert.equal(list.text(), `${first.join('')}new,`);
});
