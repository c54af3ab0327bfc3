import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import { serveParent } from './worker.ts';

test('a worker whose parent ended while it started is told so, as one whose parent ends later', () => {
  for (const connected of [false, true]) {
    const line = Object.assign(new EventEmitter(), { connected });
    let orphaned = 0;
    serveParent(line, { answers: {}, onOrphaned: () => (orphaned += 1) });
    assert.equal(orphaned, connected ? 0 : 1);
    if (connected) line.emit('disconnect');
    assert.equal(orphaned, 1);
  }
});
