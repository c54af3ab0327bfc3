import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { ImageUses } from './uses.ts';

const log = silentLogger();
const none: ReadonlySet<string> = new Set();
const image = (ref: string) => ({ id: `sha256:${ref}`, refs: [ref] });

test('what was pulled is known to the agent that comes next, however soon this one ends', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-uses-'));
  const path = join(folder.path, 'uses.json');
  const first = new ImageUses({ path, log });
  await first.load();
  await first.note([], { inUse: none, pulled: first.pulled });
  await Promise.all(['a:1', 'b:1', 'a:1'].map((name) => first.notePulled(name)));
  const next = new ImageUses({ path, log });
  await next.load();
  assert.deepEqual([...next.pulled].sort(), ['a:1', 'b:1']);
});

test('what is gone is forgotten, but not what was pulled while the images were listed', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-uses-'));
  const uses = new ImageUses({ path: join(folder.path, 'uses.json'), log });
  for (const name of ['kept:1', 'gone:1']) await uses.notePulled(name);
  const pulled = new Set(uses.pulled);
  await uses.notePulled('meanwhile:1');
  await uses.note([image('kept:1')], { inUse: none, pulled });
  assert.deepEqual([...uses.pulled].sort(), ['kept:1', 'meanwhile:1']);
  await uses.note([image('kept:1')], { inUse: none, pulled: new Set(uses.pulled) });
  assert.deepEqual([...uses.pulled], ['kept:1']);
});
