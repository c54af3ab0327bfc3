/** A moment as how long ago it is; the moment itself is in its title. */
import { useEffect, useState } from 'preact/hooks';
import { relativeText } from '../text.ts';

const tickMs = 5_000;

/** One clock for all that is on the page. */
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

export function useNow(): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const tick = () => setNow(Date.now());
    listeners.add(tick);
    timer ??= setInterval(() => {
      for (const listener of listeners) listener();
    }, tickMs);
    return () => {
      listeners.delete(tick);
      if (listeners.size > 0) return;
      clearInterval(timer);
      timer = undefined;
    };
  }, []);
  return now;
}

export function Time({ at }: { at: string | undefined }) {
  const now = useNow();
  if (at === undefined) return <span class="dim">–</span>;
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()}>
      {relativeText(at, now)}
    </time>
  );
}
