/** A store that seals, and what lies in it, for tests. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { silentLogger } from '@flynn/kit/log';
import { createMemoryStore } from '@flynn/store/memory';
import type { MemoryStore } from '@flynn/store/memory';
import type { Store } from '@flynn/store/store';
import { isSealed, sealKeyOf } from '@flynn/store/sealing/envelope';
import { isOpenKey } from '@flynn/store/sealing/rules';
import { makeRing, readRing, retireOldKeys } from '@flynn/store/sealing/ring';
import type { Ring } from '@flynn/store/sealing/ring';
import { SealedStore } from '@flynn/store/sealing/sealed-store';

export type TestSealing = Readonly<{
  /** As it is stored. */
  raw: MemoryStore;
  store: SealedStore;
  /** From now on values are sealed. */
  begin: () => Promise<void>;
  /** Says that all are, whether they are or not. */
  settle: () => Promise<void>;
  ring: () => Promise<Ring | undefined>;
  /** Keys whose values are in clear and should not be. */
  inClear: () => Promise<string[]>;
}>;

/** One that seals from now on; what is stored is in `raw`. */
export async function sealedStore(raw: Store, text: string): Promise<SealedStore> {
  await makeRing(raw, { sealingKey: sealKeyOf(text), newId: randomUUID, now: new Date() });
  return new SealedStore(raw, { sealingKeys: async () => [text], log: silentLogger() });
}

/** Nothing is sealed before `begin`. */
export function testSealing(text = 'the sealing key of a test'): TestSealing {
  const raw = createMemoryStore();
  return {
    raw,
    store: new SealedStore(raw.connect(), { sealingKeys: async () => [text], log: silentLogger() }),
    async begin() {
      await makeRing(raw, { sealingKey: sealKeyOf(text), newId: randomUUID, now: new Date(0) });
    },
    async settle() {
      const stored = await readRing(raw);
      assert.ok(stored !== undefined && (await retireOldKeys(raw, stored)));
    },
    ring: async () => (await readRing(raw))?.ring,
    async inClear() {
      const { entries } = await raw.list('');
      return entries.filter(({ key, value }) => !isOpenKey(key) && !isSealed(value)).map(({ key }) => key);
    },
  };
}
