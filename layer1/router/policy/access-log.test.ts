import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { AccessLog } from './access-log.ts';
import type { Access, LogStream } from './access-log.ts';
import { ended, headOf } from './testing.ts';

function access(target: string): Access {
  return {
    timeMs: 0,
    head: headOf({ target }),
    requestId: 'id',
    clientAddress: '192.0.2.1',
    isTls: false,
    ending: ended(200),
    tookMs: 1.234567,
    code: undefined,
    route: undefined,
    backend: undefined,
  };
}

class Sink implements LogStream {
  readonly writes: string[] = [];
  takes = true;
  drained: (() => void) | undefined;

  write(text: string): boolean {
    this.writes.push(text);
    return this.takes;
  }

  once(_event: 'drain', listener: () => void): void {
    this.drained = listener;
  }
}

describe('the access log', () => {
  test('writes many lines at once, after a moment or 64 KB', (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const sink = new Sink();
    const log = new AccessLog({ format: 'combined', stream: sink });
    for (let i = 0; i < 10; i += 1) log.write(access('/'));
    assert.equal(sink.writes.length, 0);
    t.mock.timers.tick(200);
    assert.equal(sink.writes.length, 1);
    assert.equal(sink.writes[0]?.split('\n').length, 11);
    for (let i = 0; i < 22; i += 1) log.write(access(`/${'x'.repeat(3_000)}`));
    assert.equal(sink.writes.length, 2);
  });

  test('what a slow reader has no room for is counted and told of, and memory is bounded', () => {
    const sink = new Sink();
    sink.takes = false;
    const log = new AccessLog({ format: 'json', stream: sink });
    const long = access(`/${'x'.repeat(3_000)}`);
    for (let i = 0; i < 2_000; i += 1) log.write(long);
    assert.equal(sink.writes.length, 1, 'it waits for the reader');
    sink.takes = true;
    sink.drained?.();
    const lines = sink.writes.join('').trimEnd().split('\n');
    const { lost } = JSON.parse(lines.at(-1) ?? '');
    assert.ok(lost > 500, String(lost));
    assert.equal(lines.length - 1 + lost, 2_000);
    assert.ok(sink.writes.join('').length < 5_000_000);
    log.write(access('/'));
    log[Symbol.dispose]();
    assert.equal(JSON.parse(sink.writes.at(-1) ?? '').target, '/');
  });

  test('a line that would be torn beside those of other processes is shortened, and still says what it is of', () => {
    for (const format of ['json', 'combined'] as const) {
      const sink = new Sink();
      const log = new AccessLog({ format, stream: sink });
      const long: Record<string, string>[] = [{ 'user-agent': 'ü'.repeat(3_000) }, { referer: 'x'.repeat(60_000) }];
      for (const fields of long) {
        log.write({ ...access('/'), head: headOf({ target: '/first', fields }) });
      }
      log[Symbol.dispose]();
      const lines = sink.writes.join('').trimEnd().split('\n');
      assert.equal(lines.length, 2);
      for (const line of lines) {
        assert.ok(Buffer.byteLength(line) < 4_096, String(line.length));
        assert.match(line, /\/first/);
      }
    }
  });
});
