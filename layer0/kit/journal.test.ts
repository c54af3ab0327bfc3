import assert from 'node:assert/strict';
import { closeSync, fstatSync, mkdtempDisposableSync, openSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { journalAt } from './journal.ts';
import { createLogger } from './log.ts';

/** What is written to a file, said to be the journal under another inode by so much. */
function written(off: bigint): string {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'flynn-journal-'));
  const file = join(folder.path, 'output');
  const fd = openSync(file, 'a');
  try {
    const { dev, ino } = fstatSync(fd, { bigint: true });
    const destination = journalAt({ JOURNAL_STREAM: `${dev}:${ino + off}` }, fd);
    if (destination === undefined) return 'not the journal';
    const log = createLogger('tester', { level: 'debug', destination });
    log.debug('a');
    log.info('b');
    log.child({ job: 'j1' }).warn('c');
    log.error('d');
    log.fatal('e');
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(fd);
  }
}

test('what goes to the journal has its priority ahead of it', () => {
  const lines = written(0n).trim().split('\n');
  assert.deepEqual(
    lines.map((line) => line.slice(0, 4)),
    ['<7>{', '<6>{', '<4>{', '<3>{', '<2>{'],
  );
  const messages = lines.map((line) => /"msg":"(.)"\}$/.exec(line)?.[1]);
  assert.deepEqual(messages, ['a', 'b', 'c', 'd', 'e']);
});

test('what goes elsewhere does not, whatever the environment was told by whoever started it', () => {
  assert.equal(written(1n), 'not the journal');
  assert.equal(journalAt({}), undefined);
});
