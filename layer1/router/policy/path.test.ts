import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { belowPrefix, isPlain, normalPath } from './path.ts';

const name = fc.constantFrom('a', 'b', 'ab', 'c d', 'é');
const clean = fc.array(name, { minLength: 1, maxLength: 4 });

/** The same bytes written in one of the many ways there are. */
function written(segments: readonly string[]): fc.Arbitrary<string> {
  const encode = (char: string, always: boolean) =>
    [...Buffer.from(char)]
      .map((byte) => {
        const isSafe = byte > 32 && byte < 127;
        return isSafe && !always ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, '0')}`;
      })
      .join('');
  const noise = fc.constantFrom('', '', '/', '/.', '/%2e', '/x/..', '/%61/%2E%2e', '//');
  return fc
    .array(fc.tuple(noise, fc.constantFrom('/', '/', '%2F', '%2f', '\\', '%5C'), fc.boolean()), {
      minLength: segments.length,
      maxLength: segments.length,
    })
    .map((ways) =>
      segments
        .map((segment, index) => {
          const [before, separator, always] = ways[index] ?? ['', '/', false];
          return `${before}${index === 0 ? '/' : separator}${Array.from(segment)
            .map((char) => encode(char, always))
            .join('')}`;
        })
        .join(''),
    );
}

const plainBytes = (segments: readonly string[]) => `/${Buffer.from(segments.join('/')).toString('latin1')}`;

describe('the normal form of a path', () => {
  test('is the same however the path is written', () => {
    const ways = clean.chain((segments) => fc.tuple(fc.constant(segments), written(segments)));
    fc.assert(
      fc.property(ways, ([segments, path]) => assert.equal(normalPath(path), plainBytes(segments))),
      { numRuns: 500 },
    );
  });

  test('resolves what would lead elsewhere', () => {
    for (const [path, normal] of [
      ['/', '/'],
      ['/a/', '/a/'],
      ['/a/../b', '/b'],
      ['/a/%2e%2e/b', '/b'],
      ['/a/.%2E/b', '/b'],
      ['/a%2f..%2fb', '/b'],
      ['/a/..\\b', '/b'],
      ['/a%5c..%5Cb', '/b'],
      ['/../../b', '/b'],
      ['/a/b/..', '/a/'],
      ['/a/.', '/a/'],
      ['//a///b', '/a/b'],
      ['/%252e%252e/b', '/%2e%2e/b'],
      ['/%zz%2', '/%zz%2'],
      ['/.well-known/x', '/.well-known/x'],
      ['/a/...', '/a/...'],
      ['*', '*'],
    ]) {
      assert.equal(normalPath(path ?? ''), normal, path);
    }
  });

  test('is what a plain path is already', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('/', 'a', '.', '%2e', '..', '%2f', '%41', '\\'), { maxLength: 8 }),
        (pieces) => {
          const path = `/${pieces.join('')}`;
          if (isPlain(path)) assert.equal(normalPath(path), path);
          assert.equal(isPlain(`${path}?/../%2e//`), isPlain(path));
        },
      ),
      { numRuns: 1_000 },
    );
  });
});

describe('what is below a prefix', () => {
  test('keeps the query and how it was encoded', () => {
    for (const [target, below] of [
      ['/api', '/'],
      ['/api/', '/'],
      ['/api?a=/b', '/?a=/b'],
      ['/api/x/y?z', '/x/y?z'],
      ['/%61pi/x%20y', '/x%20y'],
      ['/api/group%2Fproject/files', '/group%2Fproject/files'],
      ['/api%2Fx', '/x'],
      ['/api\\x\\..\\y', '/y'],
      ['/x/../api/y', '/y'],
      ['//api//y', '/y'],
      ['/api/../api/y', '/y'],
      ['*', '*'],
    ]) {
      assert.equal(belowPrefix(target ?? '', '/api'), below, target);
    }
    assert.equal(belowPrefix('/a//b', ''), '/a//b');
  });

  test('means what the path meant there, and cannot climb out', () => {
    const cases = fc
      .tuple(clean, clean)
      .chain(([prefix, rest]) => fc.tuple(fc.constant(prefix), fc.constant(rest), written([...prefix, ...rest])));
    fc.assert(
      fc.property(cases, ([prefix, rest, path]) => {
        const below = belowPrefix(path, plainBytes(prefix));
        assert.equal(normalPath(below), plainBytes(rest));
        assert.ok(!/(?:^|[/\\]|%2f|%5c)(?:\.|%2e){2}(?:[/\\]|%2f|%5c|$)/i.test(below));
      }),
      { numRuns: 500 },
    );
  });
});
