/** A branch read from a repository with git. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { fetchInto, headOf } from './git-remote.ts';

const { signal } = new AbortController();
const identity = ['-c', 'user.name=t', '-c', 'user.email=t@example.com'];

async function openRepository(t: TestContext) {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-remote-test-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  const work = join(dir, 'work');
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', work, ...identity, ...args], { encoding: 'utf8' }).trim();
  execFileSync('git', ['init', '--quiet', '--initial-branch', 'main', work]);
  const commit = async (files: Record<string, string | Buffer>): Promise<string> => {
    for (const [name, content] of Object.entries(files)) await writeFile(join(work, name), content);
    git('add', '.');
    git('commit', '--quiet', '--message', 'files');
    return git('rev-parse', 'HEAD');
  };
  let fetched = 0;
  const into = () => join(dir, `fetched${(fetched += 1)}.git`);
  return { remote: { url: `file://${work}`, branch: 'main', env: {} }, commit, into };
}

test('a branch is found and fetched; one that is not there is told', async (t) => {
  const { remote, commit, into } = await openRepository(t);
  const first = await commit({ 'index.html': 'hello' });
  assert.equal(await headOf(remote, signal), first);
  assert.equal(await fetchInto(into(), remote, { signal }), first);
  await assert.rejects(headOf({ ...remote, branch: 'other' }, signal), (error) => hasCode(error, 'not_found'));
});

test('what is larger than a push may be is not fetched, in one object or in many', async (t) => {
  const { remote, commit, into } = await openRepository(t);
  const maxBytes = 1024 ** 2;
  const refused = {
    code: 'invalid',
    message: /^file:\/\/.*\/work is too large: a commit may have 1 MiB, packed/,
  };
  await commit({ large: randomBytes(2 * maxBytes) });
  await assert.rejects(fetchInto(into(), remote, { signal, maxBytes }), refused);
  const parts = Array.from({ length: 20 }, (_, index) => [`part${index}`, randomBytes(maxBytes / 10)] as const);
  const many = await commit({ large: '', ...Object.fromEntries(parts) });
  await assert.rejects(fetchInto(into(), remote, { signal, maxBytes }), refused);
  assert.equal(await fetchInto(into(), remote, { signal, maxBytes: 4 * maxBytes }), many);
});
