/** Emptying a host, and waiting until it is. */
import { hosts } from '@flynn/controller/hosts/api';
import type { HostDetail, HostView } from '@flynn/controller/hosts/api';
import { whileCopied } from '@flynn/controller/hosts/sole-copies';
import { FlynnError, asFlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import type { CallInput } from '@flynn/kit/routes';
import type { Context } from '../context.ts';
import { outageMs } from '../deployments/watch.ts';
import { isPassing } from '../logs/stream.ts';
import { formatCount, formatDuration } from '../output.ts';

const pollMs = 500;

export const giveUpBlobs = [
  '--give-up-blobs',
  'do not wait for slugs and layers that no other host has: without its disk they are lost',
] as const;

/** Begins once other hosts have what this one alone has of blobs; until then it tells what is left. Ctrl-C begins nothing. */
export async function beginDrain(
  context: Context,
  client: HttpClient,
  host: string,
  body: CallInput<typeof hosts.drain>['body'],
): Promise<HostView> {
  const interrupted = new AbortController();
  const { signal } = interrupted;
  const stop = context.io.onSignal('SIGINT', () =>
    interrupted.abort(new FlynnError('cancelled', `stopped: ${host} is not drained`)),
  );
  try {
    return await whileCopied(() => client.call(hosts.drain, { params: { host }, body }, { signal }), {
      report: (line) => context.options.json || context.print(`${line}\n`),
      remedy: `or empty it all the same, and keep its disk: --give-up-blobs`,
      signal,
    });
  } finally {
    stop();
  }
}

/** Where no host is left that jobs could go to, as with the only one there is, who asked for that should know. */
export async function noteNowhere(context: Context, client: HttpClient, { id, jobs }: HostView): Promise<void> {
  const others = (await client.call(hosts.list, {})).filter((host) => host.id !== id && host.state === 'up');
  if (others.length > 0 || jobs === 0) return;
  context.tell(
    `note: no other host takes jobs now. What keeps data on ${id} stops, and all else runs on there, until one does; "flynn host undrain ${id}" calls it off`,
  );
}

/**
 * Until the host is empty, the drain is called off, or Ctrl-C, which leaves the drain as it is; through a controller that is away
 * for less than a minute.
 */
export async function awaitEmpty(context: Context, client: HttpClient, first: HostView): Promise<number> {
  const interrupted = new AbortController();
  const stop = context.io.onSignal('SIGINT', () => interrupted.abort());
  let left = -1;
  let told = '';
  let view = first;
  const { clock } = context.io;
  let brokenSinceMs: number | undefined;
  const look = async (): Promise<HostDetail | undefined> => {
    try {
      const found = await client.call(hosts.get, { params: { host: first.id } }, { signal: interrupted.signal });
      brokenSinceMs = undefined;
      return found;
    } catch (error) {
      const known = asFlynnError(error);
      if (!isPassing(known) || interrupted.signal.aborted) throw known;
      brokenSinceMs ??= clock.now();
      if (clock.now() - brokenSinceMs > outageMs) throw unanswered(known, first.id);
      context.waits(known);
      return undefined;
    }
  };
  try {
    while (view.jobs > 0 && view.drain !== undefined) {
      if (view.jobs !== left && !context.options.json) context.print(`${formatCount(view.jobs, 'job')} left\n`);
      left = view.jobs;
      await clock.sleep(pollMs, { signal: interrupted.signal });
      const detail = await look();
      if (detail === undefined) continue;
      const waits = detail.waits.map((text) => `waits: ${text}\n`).join('');
      if (waits !== told && !context.options.json) context.print(waits);
      told = waits;
      view = detail;
    }
  } catch (error) {
    if (!interrupted.signal.aborted) throw error;
    context.tell(`${first.id} goes on draining; "flynn host undrain ${first.id}" stops it`);
    return 130;
  } finally {
    stop();
  }
  const isEmpty = view.jobs === 0;
  context.show(view, () => (isEmpty ? `${view.id} is empty` : `the drain of ${view.id} was called off`));
  return isEmpty ? 0 : 1;
}

function unanswered({ code, message, detail }: FlynnError, host: string): FlynnError {
  const next = `${host} goes on draining: "flynn host show ${host}" tells how far it is`;
  const text = `${message}\n  nobody has answered for ${formatDuration(outageMs)}; ${next}`;
  return new FlynnError(code, text, { detail });
}
