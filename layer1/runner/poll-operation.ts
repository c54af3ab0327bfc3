/** Looks at the branch that an app follows, and fetches what is new. What becomes of it is the controller's. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { apps, releases } from '@flynn/controller/api';
import { hasCode } from '@flynn/kit/errors';
import { gitSshEnv } from '@flynn/kit/git-ssh';
import { withDeadline } from '@flynn/kit/retry';
import { archiveOf, findSubmodules } from '@flynn/git-receiver/archive';
import type { Env } from './env-watch.ts';
import type { Execution } from './execution.ts';
import { patiently } from './execution.ts';
import { fetchInto, headOf } from './git-remote.ts';
import { pinned } from './pinned-remote.ts';
import type { Pinned } from './pinned-remote.ts';

/** For all of it: a server that sends nothing must not hold a runner. */
const deadlineMs = 10 * 60_000;
const passedOn = ['http_proxy', 'https_proxy', 'no_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'GIT_SSL_CAINFO'];

/** Output: `commit` that the branch is at; if it is another than the input's, `sourceDigest`, its archive as a blob. */
export async function executePoll(execution: Execution): Promise<Record<string, string>> {
  const { operation, blobs, write } = execution;
  const { url = '', branch = '', commit: known = '', addresses } = operation.input;
  const signal = withDeadline(deadlineMs, execution.signal);
  const dir = await mkdtemp(join(tmpdir(), 'flynn-poll-'));
  try {
    const appEnv = await envOf(execution);
    const network = { GIT_ALLOW_PROTOCOL: 'https:http:ssh', ...pick(await execution.env(), passedOn) };
    // Without any it is an admin's, and may be everywhere.
    const place: Pinned = addresses === undefined ? { url, env: {} } : pinned(url, addresses.split(','));
    const ssh = await gitSshEnv(join(dir, 'ssh'), appEnv, place.ssh);
    const remote = { url: place.url, branch, env: { ...network, ...place.env, ...ssh } };
    const head = await headOf(remote, signal);
    if (head === known) {
      await write(`${branch} of ${url} is at ${shortOf(head)}, as before`);
      return { commit: head };
    }
    await write(`${branch} of ${url} is at ${shortOf(head)}: fetching it`);
    const repository = join(dir, 'repository.git');
    const commit = await fetchInto(repository, remote, { signal });
    const source = { repository, commit };
    const submodules = await findSubmodules(source, signal);
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
