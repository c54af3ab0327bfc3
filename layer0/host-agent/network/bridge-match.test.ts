import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { createLogger } from '@flynn/kit/log';
import { canMatchBridge } from './bridge-match.ts';

const answers: [says: string | undefined, can: boolean, isTold: boolean][] = [
  [undefined, true, false],
  ['/dev/stdin:4:5-16: Error: Could not process rule: Operation not supported', false, false],
  ["/dev/stdin:1:102-102: Error: syntax error, unexpected '}', expecting newline or semicolon", false, true],
];
for (const [says, can, isTold] of answers) {
  test(`nft that says ${says ?? 'nothing'}: bridges ${can ? 'can' : 'cannot'} be told apart${isTold ? ', and why is told' : ''}`, async () => {
    const told: string[] = [];
    const log = createLogger('test', { destination: { write: (line) => told.push(line) } });
    const run = async () => {
      if (says !== undefined) throw new FlynnError('internal', says);
      return '';
    };
    assert.equal(await canMatchBridge(run, log, AbortSignal.timeout(60_000)), can);
    assert.equal(told.length, isTold ? 1 : 0);
  });
}
