import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Release } from '@flynn/controller/model';
import { processSchema } from '@flynn/controller/processes/process';
import { differenceOf } from './release-difference.ts';

function release(more: Partial<Release>): Release {
  const base = { id: 'r1', appId: 'a1', version: 1, artifactId: 'x1', env: {}, processes: {}, meta: {}, createdAt: '' };
  return { ...base, ...more };
}

describe('what another release changes', () => {
  it('is told by names, without a value', () => {
    const from = release({ env: { A: 'secret1', B: '2' }, meta: { 'git.commit': 'aaaaaaaaaaaa' } });
    const to = release({ env: { A: 'secret2', C: '3' }, artifactId: 'x2', meta: { 'git.commit': 'bbbbbbbbbbbb' } });
    const lines = differenceOf(from, to);
    assert.deepEqual(lines, [
      'the code: commit aaaaaaaaaa → bbbbbbbbbb',
      'variables that come (back): C',
      'variables with another value: A',
      'variables that go: B',
    ]);
    assert.doesNotMatch(lines.join(), /secret/);
  });

  it('is told of processes, and is nothing where nothing changes', () => {
    const web = processSchema.parse({});
    const from = release({ processes: { web, worker: web } });
    const to = release({ processes: { web: { ...web, memoryBytes: 1 }, clock: web } });
    assert.deepEqual(differenceOf(from, to), [
      'process types that come (back): clock',
      'process types that go: worker',
      'process types that are run otherwise: web',
    ]);
    assert.deepEqual(differenceOf(from, from), []);
  });
});
