import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkDenoVersion, denoStartCommand, filesIn, parseDenoConfig } from './config.ts';

test('deno.jsonc tells its tasks, whatever comments it has', () => {
  const text = `{
    // "tasks": { "start": "no" },
    "imports": { "@std/x": "jsr:@std/x@1" /* "," } */, },
    "tasks": {
      "start": "deno run -A main.ts // 'x' ,}",
      "build": { "description": "d", "command": "vite build" },
      "all": { "dependencies": ["build"], },
    },
  }`;
  assert.deepEqual(parseDenoConfig(text, 'deno.jsonc'), {
    start: { command: "deno run -A main.ts // 'x' ,}", isAll: true },
    build: { command: 'vite build', isAll: true },
    all: { command: undefined, isAll: false },
  });
  assert.deepEqual(parseDenoConfig('{}', 'deno.json'), {});
  assert.throws(() => parseDenoConfig('{ "tasks": ', 'deno.json'), {
    code: 'invalid',
    message: /^deno\.json is not JSON/,
  });
  assert.throws(() => parseDenoConfig('{ "tasks": { "a": 1 } }', 'deno.json'), { message: /not usable/ });
});

const starts: [start: unknown, file: string | undefined, expected: string | undefined][] = [
  ['deno run --allow-net --allow-env main.ts', 'server.ts', 'deno run --allow-net --allow-env main.ts'],
  ['deno serve -A _fresh/server.js', undefined, 'deno serve --port $PORT -A _fresh/server.js'],
  ['deno serve --port=8080 main.ts', undefined, 'deno serve --port=8080 main.ts'],
  ['deno run -A main.ts && echo done', undefined, 'deno task start'],
  ['vite preview', undefined, 'deno task start'],
  [{ command: 'deno run -A main.ts', dependencies: ['build'] }, undefined, 'deno task start'],
  [{ command: 'deno run -A main.ts' }, undefined, 'deno run -A main.ts'],
  [undefined, 'main.ts', 'deno run -A main.ts'],
  [undefined, undefined, undefined],
];
for (const [start, file, expected] of starts) {
  test(`the task ${JSON.stringify(start)} and ${file ?? 'no file'} start ${expected ?? 'nothing'}`, () => {
    const tasks = parseDenoConfig(JSON.stringify({ tasks: { start } }), 'deno.json');
    assert.equal(denoStartCommand(tasks, file), expected);
  });
}

test('files are known in command lines', () => {
  assert.deepEqual(
    filesIn(['deno run -A ./main.ts --config=x.json', 'NAME=1 deno serve "src/web.tsx"&&deno run main.ts']),
    ['main.ts', 'src/web.tsx'],
  );
  assert.deepEqual(filesIn(['deno run https://example.com/x.ts ../y.ts -c']), []);
});

test('a Deno that installs no packages is refused', () => {
  checkDenoVersion('2.0.0');
  checkDenoVersion('10.1.0');
  assert.throws(() => checkDenoVersion('1.46.3'), { code: 'invalid', message: /Deno 1\.46\.3.*ask for 2\.0 or later/ });
});
