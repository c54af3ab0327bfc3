/** What a page reads, and what somebody does on it, each as one of its states. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { randomId } from '../api/client.ts';
import { asFailure, type Failure, isPassing } from '../api/failure.ts';

export type Loaded<T> =
  | Readonly<{ is: 'loading' }>
  | Readonly<{ is: 'failed'; failure: Failure }>
  /** `failure`: of the last try to read it again; what was read before is shown on. */
  | Readonly<{ is: 'ready'; value: T; failure?: Failure }>;

/**
 * Reads when the page is opened, when `subject` changes, and on `reload`; on `refresh` only if nothing is being read: an answer
 * that takes longer than the time between two of them would never be shown. With another `version` of the same subject what was
 * read is shown on until it is read again: what somebody is about to do there stays open. What comes too late is left.
 */
export function useLoaded<T>(
  subject: string,
  load: (signal: AbortSignal) => Promise<T>,
  version = '',
): { loaded: Loaded<T>; reload: () => void; refresh: () => void } {
  const [state, setState] = useState<{ subject: string; loaded: Loaded<T> }>({ subject, loaded: { is: 'loading' } });
  const [round, setRound] = useState(0);
  const loader = useRef(load);
  loader.current = load;
  const isUnderWay = useRef(false);
  useEffect(() => {
    const ended = new AbortController();
    isUnderWay.current = true;
    const take = (change: (before: Loaded<T>) => Loaded<T>) => {
      if (ended.signal.aborted) return;
      isUnderWay.current = false;
      setState((state) => ({ subject, loaded: change(state.subject === subject ? state.loaded : { is: 'loading' }) }));
    };
    loader
      .current(ended.signal)
      .then((value) => take(() => ({ is: 'ready', value })))
      .catch((error: unknown) => {
        const failure = asFailure(error);
        take((before) => (before.is === 'ready' ? { ...before, failure } : { is: 'failed', failure }));
      });
    return () => ended.abort();
  }, [subject, round, version]);
  const reload = useCallback(() => setRound((round) => round + 1), []);
  const refresh = useCallback(() => {
    if (!isUnderWay.current) reload();
  }, [reload]);
  return { loaded: state.subject === subject ? state.loaded : { is: 'loading' }, reload, refresh };
}

/** Reads again every so often while the page is looked at. For what there is no stream of. */
export function useEvery(ms: number, act: () => void): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') latest.current();
    }, ms);
    return () => clearInterval(timer);
  }, [ms]);
}

export type Doing =
  | Readonly<{ is: 'idle' }>
  | Readonly<{ is: 'pending' }>
  | Readonly<{ is: 'failed'; failure: Failure }>;

/**
 * Something that somebody does. While it is under way it does not begin again. `once` names the wish: the same one after an answer
 * that got lost, another one after an answer.
 */
export function useAction<Args extends readonly unknown[]>(
  act: (once: string, ...args: Args) => Promise<unknown>,
): { doing: Doing; run: (...args: Args) => Promise<boolean>; clear: () => void } {
  const [doing, setDoing] = useState<Doing>({ is: 'idle' });
  const isPending = useRef(false);
  const wish = useRef<{ args: string; once: string } | undefined>(undefined);
  const run = async (...args: Args): Promise<boolean> => {
    if (isPending.current) return false;
    isPending.current = true;
    setDoing({ is: 'pending' });
    const text = JSON.stringify(args);
    if (wish.current?.args !== text) wish.current = { args: text, once: randomId() };
    try {
      await act(wish.current.once, ...args);
      wish.current = undefined;
      setDoing({ is: 'idle' });
      return true;
    } catch (error) {
      const failure = asFailure(error);
      if (!isPassing(failure)) wish.current = undefined;
      setDoing({ is: 'failed', failure });
      return false;
    } finally {
      isPending.current = false;
    }
  };
  return { doing, run, clear: () => setDoing({ is: 'idle' }) };
}
