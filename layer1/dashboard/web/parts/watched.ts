/** A page that nobody looks at lets go of its connections. So does one whose login is over: it has others after the next one. */
import { createContext } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';

export const LoginOverContext = createContext(false);

/** Browsers have six connections to a server without TLS, for all their tabs, and a cluster so many places to follow logs. */
const hiddenMs = 60_000;

/** Whether somebody looks at the page, or did within the last minute, and is logged in. */
export function useIsWatched(): boolean {
  const [isWatched, setIsWatched] = useState(true);
  const isOver = useContext(LoginOverContext);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      clearTimeout(timer);
      if (document.visibilityState === 'visible') setIsWatched(true);
      else timer = setTimeout(() => setIsWatched(false), hiddenMs);
    };
    // It may have been opened behind another.
    look();
    document.addEventListener('visibilitychange', look);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', look);
    };
  }, []);
  return isWatched && !isOver;
}
