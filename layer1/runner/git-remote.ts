/** A branch of a repository elsewhere: where it is, and what it has. */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pause } from '@flynn/kit/clock';
import { FlynnError, hasErrno } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { boundOutput, endOf, endedBy, exitOf, maxPackBytes, startGit } from '@flynn/git-receiver/git';

const lookMs = 60_000;
const slow = 'git was not done in time: the server does not answer, or is too slow';

/** `env`: what git needs to get there, as a proxy or how to call ssh. */
export type Remote = Readonly<{ url: string; branch: string; env: Record<string, string> }>;

/** The commit that the branch is at. `not_found` without such a branch, `invalid` with why it cannot be read. */
export async function headOf({ url, branch, env }: Remote, signal: AbortSignal): Promise<string> {
  const args = ['ls-remote', '--exit-code', '--', url, `refs/heads/${branch}`];
  const { code, out, problem } = await run(args, { env, signal: withDeadline(lookMs, signal) });
  // As git says that there is none.
  if (code === 2) throw new FlynnError('not_found', `${url} has no branch ${branch}`);
  const [, commit] = /^([0-9a-f]{40,64})\t/.exec(out) ?? [];
  if (code === 0 && commit !== undefined) return commit;
  if (isRedirect.test(problem)) throw await redirected({ url, branch, env }, args, signal);
  throw unreadable(url, problem);
}

/** As git says that a server sends it elsewhere, where it may not follow. */
const isRedirect = /The requested URL returned error: 30\d/;

/** Where to, git tells only somebody who looks on. */
async function redirected(
  { url, branch, env }: Remote,
  args: readonly string[],
  signal: AbortSignal,
): Promise<FlynnError> {
  const traced = { ...env, GIT_TRACE_CURL: '1', GIT_TRACE_CURL_NO_DATA: '1' };
  const { problem } = await run(args, { env: traced, signal: withDeadline(lookMs, signal) });
  const [, found] = /Recv header: location: *(\S+)/i.exec(problem) ?? [];
  const target =
    found === undefined || !URL.canParse(found, `${url}/info/refs`) ? undefined : new URL(found, `${url}/info/refs`);
  const why = 'is not followed, since it could lead into the cluster';
  if (target === undefined)
    return new FlynnError('invalid', `cannot read ${url}: its server sends git elsewhere, which ${why}`);
  const path = target.pathname.replace(/\/info\/refs$/, '');
  const place = `${target.origin}${path}`.slice(0, 300);
  const words = branch === 'main' ? place : `${place} --branch ${branch}`;
  const remedy =
    path === target.pathname
      ? 'name the address that the repository has now'
      : `if that is the repository's address now, follow that: flynn source set ${words}`;
  return new FlynnError('invalid', `cannot read ${url}: its server sends git to ${place}, which ${why}: ${remedy}`);
}

/**
 * The branch's commit, with as much history as the server sends, in a repository that is made there. `invalid` with why it cannot
 * be read, or that it is more than `maxBytes`.
 */
export async function fetchInto(
  repository: string,
  { url, branch, env }: Remote,
  { signal, maxBytes = maxPackBytes }: { signal: AbortSignal; maxBytes?: number },
): Promise<string> {
  await succeed(['init', '--quiet', '--bare', '--template=', repository], { env: {}, signal });
  // In one file, however few objects it has: what a file may have is what all of it may.
  const always = ['--git-dir', repository, '-c', 'fetch.unpackLimit=1', 'fetch', '--quiet', '--no-tags'];
  const fetch = async (...more: string[]): Promise<Outcome> => {
    // A server of plain files has many of them. Indices count here, and what is only being put together.
    const size = watchSize(join(repository, 'objects'), 2 * maxBytes);
    let outcome: Outcome;
    try {
      const options = { env, signal: AbortSignal.any([signal, size.exceeded]), maxFileBytes: maxBytes };
      outcome = await run([...always, ...more, '--', url, `refs/heads/${branch}`], options);
      if (outcome.code !== 0 && outcome.problem.includes('File too large')) throw tooLarge(url, maxBytes);
    } catch (error) {
      throw size.exceeded.aborted ? tooLarge(url, maxBytes) : error;
    } finally {
      await size.stop();
    }
    if (size.exceeded.aborted) throw tooLarge(url, maxBytes);
    return outcome;
  };
  const shallow = await fetch('--depth', '1');
  // Not every server gives a part of its history.
  const fetched = shallow.code === 0 ? shallow : await fetch();
  if (fetched.code !== 0) throw unreadable(url, fetched.problem);
  const { out } = await succeed(['--git-dir', repository, 'rev-parse', 'FETCH_HEAD^{commit}'], { env: {}, signal });
  return out.trim();
}

const sizeLookMs = 500;

/** `exceeded` aborts once the files of a folder that grows come to more; it is looked at once more when it is stopped. */
function watchSize(folder: string, maxBytes: number): { exceeded: AbortSignal; stop: () => Promise<void> } {
  const [exceeded, ending] = [new AbortController(), new AbortController()];
  const watching = (async () => {
    for (;;) {
      await pause(sizeLookMs, ending.signal);
      if ((await bytesBelow(folder)) > maxBytes) return exceeded.abort();
      if (ending.signal.aborted) return;
    }
  })();
  return {
    exceeded: exceeded.signal,
    stop: () => {
      ending.abort();
      return watching;
    },
  };
}

async function bytesBelow(folder: string): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    try {
      bytes += (await stat(join(entry.parentPath, entry.name))).size;
    } catch (error) {
      // A temporary file that has its name by now.
      if (!hasErrno(error, 'ENOENT')) throw error;
    }
  }
  return bytes;
}

function tooLarge(url: string, maxBytes: number): FlynnError {
  return new FlynnError(
    'invalid',
    `${url} is too large: a commit may have ${maxBytes / 2 ** 20} MiB, packed, as with a push. Keep large files elsewhere, and fetch them in the build`,
  );
}

function unreadable(url: string, problem: string): FlynnError {
  const said = problem
    .trim()
    .split('\n')
    .filter((line) => line.trim() !== '');
  const fatal = said.findIndex((line) => /^(?:fatal|ERROR|error):/.test(line));
  // Of SSH git says only that it did not work: why, ssh has said before.
  const ofSsh = /Could not read from remote repository/.test(said[fatal] ?? '') ? said[fatal - 1] : undefined;
  const why = (ofSsh ?? said[fatal] ?? said.at(-1) ?? 'git does not say why').trim().replace(/\.$/, '');
  return new FlynnError(
    'invalid',
    `cannot read ${url}: ${why.slice(0, 300)}. If it is not public, give the app a key that may read it: flynn source set URL --deploy-key FILE`,
  );
}

type GitOptions = { env: Record<string, string>; signal: AbortSignal; maxFileBytes?: number };
type Outcome = { code: number; out: string; problem: string };

async function succeed(args: readonly string[], options: GitOptions): Promise<Outcome> {
  const outcome = await run(args, options);
  if (outcome.code === 0) return outcome;
  throw new FlynnError(
    'internal',
    `git ${args[0] ?? ''} failed with exit code ${outcome.code}: ${outcome.problem.trim()}`,
  );
}

/** `invalid` where git, or the server through it, says more than there is to say. */
async function run(args: readonly string[], { signal, ...options }: GitOptions): Promise<Outcome> {
  signal.throwIfAborted();
  const git = startGit(args, options);
  using _ending = endedBy(git, signal);
  git.stdin.end();
  const output = boundOutput(git);
  const [code, out, problem] = await Promise.all([exitOf(git), text(git.stdout), text(git.stderr)]);
  if (signal.aborted) throw endOf(signal, slow);
  if (output.tooMuch !== undefined) {
    throw new FlynnError(
      'invalid',
      'the repository cannot be read: its server tells git more than any repository needs. Look at the address: flynn source',
    );
  }
  return { code, out, problem };
}
