/** Waiting for a host to be empty. */
import { hosts } from '@flynn/controller/api-hosts';
import type { HostView } from '@flynn/controller/api-hosts';
import { systemClock } from '@flynn/kit/clock';
import type { HttpClient } from '@flynn/kit/http-client';
import type { Context } from '../context.ts';
import { formatCount } from '../output.ts';

const pollMs = 500;

/** Until the host is empty, the drain is called off, or Ctrl-C, which leaves the drain as it is. */
export async function awaitEmpty(context: Context, client: HttpClient, first: HostView): Promise<number> {
  const interrupted = new AbortController();
  const stop = context.io.onSignal('SIGINT', () => interrupted.abort());
  let left = -1;
  let view = first;
  try {
    while (view.jobs > 0 && view.drain !== undefined) {
      if (view.jobs !== left && !context.options.json) context.print(`${formatCount(view.jobs, 'job')} left\n`);
      left = view.jobs;
      await systemClock.sleep(pollMs, { signal: interrupted.signal });
      view = await client.call(hosts.get, { params: { host: first.id } });
    }
  } catch (error) {
    if (!interrupted.signal.aborted) throw error;
    context.print(`${first.id} goes on draining; "flynn host undrain ${first.id}" stops it\n`);
    return 130;
  } finally {
    stop();
  }
  const isEmpty = view.jobs === 0;
  context.show(view, () => (isEmpty ? `${view.id} is empty` : `the drain of ${view.id} was called off`));
  return isEmpty ? 0 : 1;
}
