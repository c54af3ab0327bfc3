/** Looks at the branch that an app follows, and fetches what is new. What becomes of it is the controller's. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { apps, releases } from '@flynn/controller/api';
import { placeIn } from '@flynn/controller/builds/place';
import type { App } from '@flynn/controller/model';
import { hasCode } from '@flynn/kit/errors';
import { gitSshEnv } from '@flynn/kit/git-ssh';
import { withDeadline } from '@flynn/kit/retry';
import { archiveOf } from '@flynn/git-receiver/archive';
import { locate } from '@flynn/git-receiver/build-place';
import type { Env } from './env-watch.ts';
import type { Execution } from './execution.ts';
import { patiently } from './execution.ts';
import { fetchInto, headOf } from './git-remote.ts';
import { pinned } from './pinned-remote.ts';
import type { Pinned } from './pinned-remote.ts';

/** For all of it: a server that sends nothing must not hold a runner. */
const deadlineMs = 10 * 60_000;
const passedOn = ['http_proxy', 'https_proxy', 'no_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'GIT_SSL_CAINFO'];

/**
 * Output: `commit` that the branch is at; if it is another than the input's, `sourceDigest`, its archive as a blob, and
 * `folder`, which that is of: who knows of none tells none.
 */
export async function executePoll(execution: Execution): Promise<Record<string, string>> {
  const { operation, blobs, write } = execution;
  const { url = '', branch = '', commit: known = '', addresses } = operation.input;
  const signal = withDeadline(deadlineMs, execution.signal);
  const dir = await mkdtemp(join(tmpdir(), 'flynn-poll-'));
  try {
    const app = await appOf(execution);
    const appEnv = await envOf(execution, app);
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
    const built = placeIn(operation.input);
    const { source, submodules } = await locate({ repository, commit }, built, { app, signal });
    const send = (limited: AbortSignal) =>
      blobs.put(Readable.from(archiveOf(source, submodules, limited), { objectMode: false }), { signal: limited });
    // No room is not made by waiting.
    const isRetryable = (error: unknown): boolean => hasCode(error, 'unavailable', 'timeout');
    const { digest } = await patiently('storing the source', { signal }, send, { isRetryable });
    return { commit, sourceDigest: digest, ...(built.folder === undefined ? {} : { folder: built.folder }) };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

function appOf(execution: Execution): Promise<App> {
  const { controller, operation } = execution;
  return patiently('reading the app', execution, (signal) =>
    controller.call(apps.get, { params: { app: operation.appId } }, { signal }),
  );
}

/** The variables of the live release, or of the newest there is: they hold the app's key. */
async function envOf(execution: Execution, { id, releaseId }: App): Promise<Readonly<Record<string, string>>> {
  const { controller } = execution;
  const params = { app: id };
  return patiently('reading its variables', execution, async (signal) => {
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
