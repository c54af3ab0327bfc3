import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { BuildSteps, readBuildProgress } from './progress.ts';

const progressOf = (...messages: object[]): Readable =>
  Readable.from(messages.map((message) => Buffer.from(`${JSON.stringify(message)}\r\n`)));

const id = (letter: string): string => letter.repeat(12);

test('the images a build makes are told from those it found, stage by stage', async () => {
  const steps = new BuildSteps();
  const lines: string[] = [];
  const said = [
    'Step 1/6 : FROM base AS one',
    ` ---> ${id('a')}`,
    'Step 2/6 : RUN x',
    ' ---> Using cache',
    ` ---> ${id('b')}`,
    'Step 3/6 : RUN y',
    ` ---> Running in ${id('9')}`,
    'a program says something',
    'Removing intermediate container 1',
    ` ---> ${id('c')}`,
    'Step 4/6 : from base',
    ` ---> ${id('a')}`,
    'Step 5/6 : COPY --from=one /x /x',
    ` ---> ${id('d')}`,
    `Successfully built ${id('d')}`,
  ];
  await readBuildProgress(
    progressOf(
      { status: 'Pulling from x' },
      { status: 'Downloading', progress: '=>' },
      ...said.map((line) => ({ stream: `${line}\n` })),
    ),
    steps,
    (line) => void lines.push(line),
  );
  assert.deepEqual(lines, ['Pulling from x', ...said]);
  assert.deepEqual(steps.stageEnds, [id('c'), id('d')]);
  assert.deepEqual(steps.made, [id('c'), id('d')]);
});

test('a build that fails says everything first, however its output was cut', async () => {
  const lines: string[] = [];
  const progress = progressOf(
    { stream: 'one\ntw' },
    { stream: 'o\nthree' },
    { errorDetail: { message: 'exit 7' }, error: 'exit 7' },
  );
  await assert.rejects(
    readBuildProgress(progress, new BuildSteps(), (line) => void lines.push(line)),
    (error) => hasCode(error, 'invalid') && error.message === 'exit 7',
  );
  assert.deepEqual(lines, ['one', 'two', 'three']);
});

test('what a step complains of letter by letter is one line', async () => {
  const lines: string[] = [];
  const pieces = ['cur', 'l', ': (22)', ' not there\n'].map((text) => ({ stream: `\u001b[91m${text}\u001b[0m` }));
  await readBuildProgress(progressOf(...pieces), new BuildSteps(), (line) => void lines.push(line));
  assert.equal(lines[0], '\u001b[91mcurl: (22) not there');
});

test('a step that fails says its code, however long its command is', async () => {
  const message = `The command '/bin/sh -c begin ${String.raw`\n`.repeat(30_000)} end' returned a non-zero code: 7`;
  await assert.rejects(
    readBuildProgress(progressOf({ errorDetail: { message }, error: message }), new BuildSteps(), () => undefined),
    (error) =>
      hasCode(error, 'invalid') &&
      error.message.length < 2_100 &&
      /^The command '\/bin\/sh -c begin [^]* \[… \d+ more …\] [^]* end' returned a non-zero code: 7$/.test(
        error.message,
      ),
  );
});
