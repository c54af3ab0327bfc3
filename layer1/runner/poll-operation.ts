/** Looks at the branch that an app follows, and fetches what is new. What becomes of it is the controller's. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { apps, releases } from '@flynn/controller/api';
import { abortError } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { gitSshEnv } from '@flynn/kit/git-ssh';
import { endGroup } from '@flynn/kit/process-group';
import { withDeadline } from '@flynn/kit/retry';
import { archiveOf, findSubmodules } from '@flynn/git-receiver/archive';
import { exitOf, startGit } from '@flynn/git-receiver/git';
import type { Env } from './env-watch.ts';
import type { Execution } from './execution.ts';
import { patiently } from './execution.ts';

/** For all of it: a server that sends nothing must not hold a runner. */
const deadlineMs = 10 * 60_000;
const lookMs = 60_000;
const passedOn = ['http_proxy', 'https_proxy', 'no_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'GIT_SSL_CAINFO'];

type Remote = { url: string; branch: string; env: Record<string, string> };

/** Output: `commit` that the branch is at; if it is another than the input's, `sourceDigest`, its archive as a blob. */
export async function executePoll(execution: Execution): Promise<Record<string, string>> {
  const { operation, blobs, write } = execution;
  const { url = '', branch = '', commit: known = '' } = operation.input;
  const signal = withDeadline(deadlineMs, execution.signal);
  const dir = await mkdtemp(join(tmpdir(), 'flynn-poll-'));
  try {
    const appEnv = await envOf(execution);
    const network = { GIT_ALLOW_PROTOCOL: 'https:http:ssh', ...pick(await execution.env(), passedOn) };
    const remote = { url, branch, env: { ...network, ...(await gitSshEnv(join(dir, 'ssh'), appEnv)) } };
    const head = await headOf(remote, signal);
    if (head === known) {
      await write(`${branch} of ${url} is at ${shortOf(head)}, as before`);
      return { commit: head };
    }
    await write(`${branch} of ${url} is at ${shortOf(head)}: fetching it`);
    const repository = join(dir, 'repository.git');
    const commit = await fetchInto(repository, remote, signal);
    const source = { repository, commit };
    const submodules = await findSubmodules(source);
    const send = (limited: AbortSignal) =>
      blobs.put(Readable.from(archiveOf(source, submodules, limited), { objectMode: false }), { signal: limited });
    // No room is not made by waiting.
    const isRetryable = (error: unknown): boolean => hasCode(error, 'unavailable', 'timeout');
    const { digest } = await patiently('storing the source', { signal }, send, { isRetryable });
    return { commit, sourceDigest: digest };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** The variables of the live release, or of the newest there is: they hold the app's key. */
async function envOf(execution: Execution): Promise<Readonly<Record<string, string>>> {
  const { controller, operation } = execution;
  const params = { app: operation.appId };
  return patiently('reading the app', execution, async (signal) => {
    const { releaseId } = await controller.call(apps.get, { params }, { signal });
    if (releaseId !== undefined) {
      return (await controller.call(releases.get, { params: { ...params, release: releaseId } }, { signal })).env;
    }
    const [newest] = await controller.call(releases.list, { params, query: { limit: 1 } }, { signal });
    return newest?.env ?? {};
  });
}

async function headOf({ url, branch, env }: Remote, signal: AbortSignal): Promise<string> {
  const args = ['ls-remote', '--exit-code', '--', url, `refs/heads/${branch}`];
  const { code, out, problem } = await run(args, env, withDeadline(lookMs, signal));
  // As git says that there is none.
  if (code === 2) throw new FlynnError('not_found', `${url} has no branch ${branch}`);
  const [, commit] = /^([0-9a-f]{40,64})\t/.exec(out) ?? [];
  if (code === 0 && commit !== undefined) return commit;
  throw unreadable(url, problem);
}

async function fetchInto(repository: string, { url, branch, env }: Remote, signal: AbortSignal): Promise<string> {
  await succeed(['init', '--quiet', '--bare', '--template=', repository], {}, signal);
  const fetch = (...more: string[]) =>
    run(
      ['--git-dir', repository, 'fetch', '--quiet', '--no-tags', ...more, '--', url, `refs/heads/${branch}`],
      env,
      signal,
    );
  const shallow = await fetch('--depth', '1');
  // Not every server gives a part of its history.
  const fetched = shallow.code === 0 ? shallow : await fetch();
  if (fetched.code !== 0) throw unreadable(url, fetched.problem);
  return (await succeed(['--git-dir', repository, 'rev-parse', 'FETCH_HEAD^{commit}'], {}, signal)).trim();
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

async function succeed(args: readonly string[], env: Record<string, string>, signal: AbortSignal): Promise<string> {
  const { code, out, problem } = await run(args, env, signal);
  if (code === 0) return out;
  throw new FlynnError('internal', `git ${args[0] ?? ''} failed with exit code ${code}: ${problem.trim()}`);
}

async function run(
  args: readonly string[],
  env: Record<string, string>,
  signal: AbortSignal,
): Promise<{ code: number; out: string; problem: string }> {
  signal.throwIfAborted();
  const git = startGit(args, { env });
  const stop = (): void => endGroup(git);
  signal.addEventListener('abort', stop, { once: true });
  git.stdin.end();
  try {
    const [code, out, problem] = await Promise.all([exitOf(git), text(git.stdout), text(git.stderr)]);
    if (signal.aborted) throw endOf(signal);
    return { code, out, problem };
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

function endOf(signal: AbortSignal): FlynnError {
  const reason = abortError(signal);
  if (reason.code !== 'timeout') return reason;
  return new FlynnError('timeout', 'git was not done in time: the server does not answer, or is too slow');
}

function shortOf(commit: string): string {
  return commit.slice(0, 8);
}

function pick(env: Env, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = env[name];
      return value === undefined ? [] : [[name, value] as const];
    }),
  );
}
