/** Takes a pushed commit from the repository to the running app, telling the person every line on the way. */
import { Readable } from 'node:stream';
import type { App, Operation } from '@flynn/controller/model';
import type { BlobClient } from '@flynn/blobstore/client';
import { asFlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { retry, withDeadline } from '@flynn/kit/retry';
import { placeOf } from '@flynn/controller/builds/place';
import type { BuildPlace } from '@flynn/controller/builds/place';
import { archiveOf } from './archive.ts';
import { locate } from './build-place.ts';
import type { Platform, Push } from './platform.ts';

export type Pushed = {
  app: App;
  pushId: string;
  commit: string;
  branch: string;
  /** How long its build may wait for a runner. */
  expiresInMs?: number;
  repository: string;
  /** Where git keeps the objects of a push that is not accepted yet. */
  quarantine: Record<string, string>;
};

export type DeployDeps = { platform: Platform; blobs: Pick<BlobClient, 'put'>; log: Logger };

/**
 * True once the commit is live. False after having told why it is not. When the signal aborts, what is still under way
 * is cancelled before this returns.
 */
export async function deploy(
  deps: DeployDeps,
  pushed: Pushed,
  options: { say: (line: string) => void; signal: AbortSignal },
): Promise<boolean> {
  const { say, signal } = options;
  const { app, pushId, commit, branch, expiresInMs } = pushed;
  let chain: Operation[] | undefined;
  let request: Push | undefined;
  // Even if its answer never came the push may have been taken: asked again, the controller tells the same operations.
  const takenChain = async () =>
    request === undefined ? [] : deps.platform.push(app.id, request, { signal: withDeadline(30_000) });
  try {
    const place = placeOf(app.meta);
    const { digest } = await upload(deps, pushed, place, signal);
    const wait = expiresInMs === undefined ? {} : { expiresInMs };
    request = { pushId, sourceDigest: digest, commit, branch, ...place, ...wait };
    chain = await deps.platform.push(app.id, request, { signal });
    for (const operation of chain) {
      const ended = await tell(deps.platform.follow(operation.id, { signal }), say);
      if (ended.state === 'complete') continue;
      say('');
      say(` !     ${failureText(ended)}`);
      // A rollout may go on when only who follows it is gone.
      say(` !     ${ended.kind === 'deploy' ? '' : 'Nothing was changed. '}Push again once it is put right.`);
      return false;
    }
    return true;
  } catch (error) {
    if (signal.aborted) {
      await cancel(deps, pushed.pushId, async () => chain ?? takenChain());
      say(' !     The push was cancelled, and what it had started with it: the app is as it was before.');
      say(' !     Only what was live already stays so; "flynn deployment" tells.');
      return false;
    }
    const { code } = asFlynnError(error);
    deps.log.error({ err: error, app: app.id, pushId }, `a push failed: ${messageOf(error)}`);
    say('');
    say(
      ` !     The push did not get through: ${code === 'internal' ? 'the platform failed unexpectedly' : messageOf(error)}.`,
    );
    // Once more would be refused once more; the message says what helps.
    if (code === 'denied' || code === 'invalid') return false;
    say(` !     Push again in a moment; "flynn ps" and "flynn log" tell how the app is. (push ${pushId})`);
    return false;
  }
}

async function tell(lines: AsyncGenerator<string, Operation>, say: (line: string) => void): Promise<Operation> {
  for (;;) {
    const next = await lines.next();
    if (next.done === true) return next.value;
    say(next.value);
  }
}

async function cancel(deps: DeployDeps, pushId: string, chainOf: () => Promise<readonly Operation[]>): Promise<void> {
  let chain: readonly Operation[] = [];
  try {
    chain = await chainOf();
  } catch (error) {
    deps.log.error({ err: error, pushId }, 'could not find out what a cancelled push had started');
  }
  // From the end: an operation whose predecessor is cancelled must not be found started.
  for (const operation of chain.toReversed()) {
    try {
      await deps.platform.cancel(operation.id);
    } catch (error) {
      deps.log.error({ err: error, operation: operation.id, pushId }, 'could not cancel an operation');
    }
  }
}

function failureText({ kind, state, error }: Operation): string {
  if (state === 'cancelled') return `The ${kind} was cancelled${error === undefined ? '.' : `: ${error}`}`;
  return error === undefined ? `The ${kind} failed.` : `${error.slice(0, 1).toUpperCase()}${error.slice(1)}`;
}

/** `git archive` of the commit, straight into the blob store. */
async function upload(
  deps: DeployDeps,
  { app, commit, repository, quarantine }: Pushed,
  place: BuildPlace,
  signal: AbortSignal,
): Promise<{ digest: string }> {
  const { source, submodules } = await locate({ commit, repository, env: quarantine }, place, { app, signal });
  const send = (limited: AbortSignal) =>
    deps.blobs.put(Readable.from(archiveOf(source, submodules, limited), { objectMode: false }), { signal: limited });
  // No room is not made by waiting: whoever can make some has to hear of it.
  const isRetryable = (error: unknown): boolean => hasCode(error, 'unavailable', 'timeout');
  return retry(send, { what: 'sending the source to the blob store', deadlineMs: 10 * 60_000, signal, isRetryable });
}
