/**
 * Sends a receiver what waits for it, one message after the other.
 *
 * INVARIANTS. What the receiver said is written down before the next is sent. Whoever dies after it has sent, and before that,
 * has whoever follows send the same message again, with the same id: at least once, never nothing.
 */
import { ifFound } from '@flynn/kit/errors';
import type { Again } from '@flynn/resource/reconciler';
import type { Compare } from '@flynn/store/store';
import type { Deps } from '../deps.ts';
import { answered, nextOf, withoutExpired } from './queue.ts';
import type { Queue } from './queue.ts';
import type { Send } from './sender.ts';
import { sendMessage } from './sending.ts';
import { notificationType } from './types.ts';

type DeliveryDeps = Pick<Deps, 'store' | 'resources' | 'cell' | 'settings' | 'now'>;
type Options = Readonly<{
  send: Send;
  /** From 0 to 1, so that not all try again at the same time. */
  random: () => number;
  signal: AbortSignal;
  epoch?: Compare | undefined;
}>;

export async function stepDelivery(deps: DeliveryDeps, id: string, options: Options): Promise<void | Again> {
  const { resources, now } = deps;
  const { send, random, signal, epoch } = options;
  const found = await resources.find(notificationType, id, { signal });
  if (found === undefined || found.deletingSince !== undefined) return;
  const write = (change: (queue: Queue) => Queue) =>
    ifFound(
      resources.updateStatus(notificationType, id, ({ status }) => change(status), {
        signal,
        also: () => ({ compare: epoch === undefined ? [] : [epoch] }),
      }),
    );
  const queue = withoutExpired(found.status, now());
  if (queue !== found.status) await write((current) => withoutExpired(current, now()));
  const next = nextOf(queue, now());
  if (next === undefined) return;
  if (next.inMs > 0) return { againInMs: next.inMs };
  const { message } = next;
  const answer = await sendMessage(deps, send, { spec: found.spec, message }, signal);
  const written = await write((current) => answered(current, message, answer, now(), random()));
  const after = written === undefined ? undefined : nextOf(written.status, now());
  return after === undefined ? undefined : { againInMs: after.inMs };
}
