import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { VolumeSizes } from './sizes.ts';

const { signal } = new AbortController();

test('what is in volumes is measured once for all who ask, one after the other, and remembered', async () => {
  const measured: string[] = [];
  let atOnce = 0;
  const sizes = new VolumeSizes({
    engine: {
      async volumeBytes(name) {
        measured.push(name);
        atOnce += 1;
        assert.equal(atOnce, 1, 'one at a time');
        await new Promise(setImmediate);
        atOnce -= 1;
        if (name === 'broken') throw new FlynnError('internal', 'du failed');
        return name === 'unseen' ? undefined : 4_096;
      },
    },
    signal,
    log: silentLogger(),
  });
  const names = ['a', 'broken', 'unseen', 'b'];
  const known = new Map([
    ['a', 4_096],
    ['b', 4_096],
  ]);
  assert.deepEqual(await Promise.all([sizes.of(names, { signal }), sizes.of(names, { signal })]), [known, known]);
  assert.deepEqual(measured, names);
  assert.deepEqual(await sizes.of(['b', 'a'], { signal }), known);
  assert.deepEqual(measured, names, 'within the minute nobody looks again');
});

test('who asks does not wait for a large one: it is measured on, and known to who asks next', async () => {
  const large = Promise.withResolvers<number>();
  const sizes = new VolumeSizes({
    engine: { volumeBytes: (name) => (name === 'large' ? large.promise : Promise.resolve(1)) },
    signal,
    log: silentLogger(),
    patienceMs: 1,
  });
  assert.deepEqual(await sizes.of(['small', 'large'], { signal }), new Map([['small', 1]]));
  large.resolve(2 ** 40);
  await large.promise;
  const both = new Map([
    ['small', 1],
    ['large', 2 ** 40],
  ]);
  assert.deepEqual(await sizes.of(['small', 'large'], { signal }), both);
  const gone = new AbortController();
  gone.abort();
  await assert.rejects(sizes.of(['small'], { signal: gone.signal }), { name: 'AbortError' });
});
