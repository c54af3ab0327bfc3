/** A stream of events that goes on where it broke off, for as long as somebody looks at it. */
import { asFailure, isPassing } from './failure.ts';
import type { StreamEvent } from './streams.ts';

/** How a page is connected with what it shows. */
export type Link =
  | Readonly<{ is: 'connecting' }>
  | Readonly<{ is: 'live' }>
  /** It comes back by itself. */
  | Readonly<{ is: 'lost'; why: string }>
  /** It does not: what is followed is not there, or not for whoever asks. */
  | Readonly<{ is: 'refused'; why: string }>;

export type Following = Readonly<{
  /** Connects, after the event with that id if there is one. Throws Failure. */
  open: (lastEventId: string | undefined) => Promise<AsyncIterable<StreamEvent>>;
  /** The last event that was seen, by whoever followed before; default: none, and all there is is told. */
  after?: string | undefined;
  /** All there is is told from here on, up to the event `current`; what is not told by then is gone. */
  onBegin: () => void;
  onEvent: (event: StreamEvent) => void;
  onLink: (link: Link) => void;
  /** Whether this event is the last there will be. Default: there is none. */
  isLast?: (event: StreamEvent) => boolean;
  signal: AbortSignal;
  wait: (ms: number, signal: AbortSignal) => Promise<void>;
}>;

const firstWaitMs = 500;
const longestWaitMs = 10_000;

/**
 * Resolves when the signal aborts, after the last event, or when it is refused. What changed while it was away is asked for by the
 * last id; where that is not known any more (409 with `detail.expired`) it begins anew.
 */
export async function follow(following: Following): Promise<void> {
  const { open, onBegin, onEvent, onLink, isLast = () => false, signal, wait } = following;
  let lastId = following.after;
  let failures = 0;
  onLink({ is: 'connecting' });
  while (!signal.aborted) {
    try {
      const events = await open(lastId);
      if (lastId === undefined) onBegin();
      // Of one that goes on nothing may come for long: it is there once it is answered.
      onLink({ is: 'live' });
      for await (const event of events) {
        if (signal.aborted) return;
        failures = 0;
        if (event.id !== undefined) lastId = event.id;
        onEvent(event);
        if (isLast(event)) return;
      }
      if (signal.aborted) return;
      onLink({ is: 'lost', why: 'the connection ended' });
    } catch (error) {
      if (signal.aborted) return;
      const failure = asFailure(error);
      if (failure.code === 'conflict' && failure.detail['expired'] === true && lastId !== undefined) {
        lastId = undefined;
        continue;
      }
      if (!isPassing(failure)) {
        onLink({ is: 'refused', why: failure.message });
        return;
      }
      onLink({ is: 'lost', why: failure.message });
    }
    await wait(Math.min(longestWaitMs, firstWaitMs * 2 ** failures), signal);
    failures += 1;
  }
}

/** Resolves after that time, or when the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
  });
}
