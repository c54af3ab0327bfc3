import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withoutBuildKit } from './buildkit.ts';
import { type Staged, withCopyStages } from './copy-stages.ts';
import { instructionsOf } from './instructions.ts';

const args = { SECRET: 's3cret', DIR: 's3cret-folder' };

function stagedOf(given: string): Staged {
  const { dockerfile, documents } = withoutBuildKit(given);
  return withCopyStages(dockerfile, { documents, args, bases: new Map() });
}

const pieceBytes = 8 * 1024;

/** As the engine says it, up to the step that fails. */
function saidOf({ dockerfile }: Staged, isFailing: (step: string) => boolean = () => false): string[] {
  const steps = instructionsOf(dockerfile).map(({ text }) => text);
  const failing = steps.findIndex(isFailing);
  return steps.slice(0, failing < 0 ? undefined : failing + 1).flatMap((step, at) => {
    const line = `Step ${at + 1}/${steps.length} : ${step}`;
    const pieces: string[] = line.match(new RegExp(`.{1,${pieceBytes}}`, 'gs')) ?? [];
    return pieces.concat(step.startsWith('RUN ') ? [' ---> Running in 0123456789ab', 'printed'] : ' ---> 0123456789ab');
  });
}

const told = (staged: Staged): string[] => {
  const words = staged.words();
  return saidOf(staged).flatMap((line) => words.told(line) ?? []);
};

test('people read which line is prepared, and what they wrote, in the place of what was made of it', () => {
  const staged = stagedOf(
    'FROM x\nARG SECRET\nARG DIR\nCOPY <<EOF \\\n  /app/.env\nkey=$SECRET\nEOF\nADD --chmod=600 $DIR https://x.example.com/$SECRET/a /b/\nRUN make $SECRET\n',
  );
  assert.ok(saidOf(staged).filter((line) => line.includes('s3cret')).length >= 3);
  assert.deepEqual(told(staged), [
    'Step 1/12 : what line 4 copies is prepared',
    ' ---> 0123456789ab',
    'Step 2/12 : what line 4 copies is prepared',
    ' ---> Running in 0123456789ab',
    'printed',
    ...[3, 4].flatMap((at) => [`Step ${at}/12 : what line 8 copies is prepared`, ' ---> 0123456789ab']),
    ...[5, 6].flatMap((at) => [
      `Step ${at}/12 : what line 8 copies is prepared`,
      ' ---> Running in 0123456789ab',
      'printed',
    ]),
    'Step 7/12 : FROM x',
    ' ---> 0123456789ab',
    'Step 8/12 : ARG SECRET',
    ' ---> 0123456789ab',
    'Step 9/12 : ARG DIR',
    ' ---> 0123456789ab',
    'Step 10/12 : COPY <<EOF   /app/.env',
    ' ---> 0123456789ab',
    'Step 11/12 : ADD --chmod=600 $DIR https://x.example.com/$SECRET/a /b/',
    ' ---> 0123456789ab',
    'Step 12/12 : RUN make $SECRET',
    ' ---> Running in 0123456789ab',
    'printed',
  ]);
});

test('nothing of a line that comes in pieces is told, whatever the pieces begin with', () => {
  for (const lure of ['Step 1/2 : FROM y|', 'Step 1/2 : RUN y|', ' ---> Using cache|']) {
    let begun = 0;
    // One of the pieces begins so, wherever they are cut.
    for (let shift = 0; shift < lure.length; shift += 1) {
      const content = `${'y'.repeat(shift)}${lure.repeat(2_000)}\${SECRET}${'z'.repeat(pieceBytes)}`;
      const staged = stagedOf(`FROM x\nARG SECRET\nCOPY <<EOF /x\n${content}\nEOF\n`);
      begun += saidOf(staged).filter((line) => line.startsWith(lure)).length;
      const lines = told(staged);
      assert.ok(lines.every((line) => line.length < 100) && !lines.join('').includes('s3cret'), `${lure} ${shift}`);
    }
    assert.ok(begun > 0, lure);
  }
});

const text = 'FROM x\nCOPY --chmod=1 *.a /\nARG DIR\nCOPY --chmod=2 $DIR /\nCOPY --chmod=1 *.a /\nRUN make\n';

const failures: [what: string, isFailing: (step: string) => boolean, said: string, told: string][] = [
  [
    'a step that prepares is told by its line, without its command',
    (step) => step.startsWith('RUN') && step.includes('s3cret'),
    `The command '/bin/sh -c chmod s3cret-folder' returned a non-zero code: 3`,
    'What line 4 of the Dockerfile copies could not be prepared: non-zero code: 3',
  ],
  [
    'what is not there is told by the engine, if no variable names it',
    (step) => step.startsWith('COPY'),
    'COPY failed: no such file: a',
    'COPY failed: no such file: a',
  ],
  [
    'what is not there is told by the line that names it, if variables do',
    (step) => step.startsWith('COPY') && step.includes('s3cret'),
    'COPY failed: no such file: s3cret-folder',
    'What line 4 of the Dockerfile copies could not be prepared: see that all it names is there. What the engine says of it is left out, as it may have values of variables in it',
  ],
  [
    'what cannot be taken is told likewise',
    (step) => step.startsWith('COPY --from') && step.includes('s3cret'),
    'COPY failed: s3cret-folder',
    'What line 4 of the Dockerfile copies could not be prepared: see that all it names is there. What the engine says of it is left out, as it may have values of variables in it',
  ],
  [
    'a step that people wrote is told as it is',
    (step) => step === 'RUN make',
    `The command '/bin/sh -c make' returned a non-zero code: 1`,
    `The command '/bin/sh -c make' returned a non-zero code: 1`,
  ],
];
for (const [what, isFailing, said, expected] of failures) {
  test(`of failures: ${what}`, () => {
    const staged = stagedOf(text);
    const words = staged.words();
    for (const line of saidOf(staged, isFailing)) words.told(line);
    assert.equal(words.failure(said), expected);
  });
}

test('a step that is prepared twice in the same way is told by the line it failed for', () => {
  const staged = stagedOf(text);
  const words = staged.words();
  let count = 0;
  for (const line of saidOf(staged, (step) => step.includes("-name '*.a'") && ++count === 2)) words.told(line);
  assert.match(words.failure(`'/bin/sh -c x' returned a non-zero code: 1`), /^What line 5 of the Dockerfile copies/);
});

test('the line of what cannot be read is that which people wrote', () => {
  const { dockerfile, words } = stagedOf(`${text}RUM x\n`);
  const line = dockerfile.split('\n').indexOf('RUM x') + 1;
  assert.equal(
    words().failure(`dockerfile parse error line ${line}: unknown`),
    'dockerfile parse error line 7: unknown',
  );
});
