/**
 * What somebody sees who is logged in, or is to log in. Where a login is over the form stands above the pages, which stay as they
 * are: what was typed there is not lost, and goes on for whoever logs in as the same person.
 */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Api } from './api/client.ts';
import { Failure } from './api/failure.ts';
import { Login } from './login.tsx';
import { useOpenDialog } from './parts/focus.ts';
import { FailureNotice, Reading } from './parts/notices.tsx';
import { LoginOverContext } from './parts/watched.ts';
import { formerOf, type Session } from './session.ts';

type In = Extract<Session, { is: 'in' }>;

export function Gate(props: {
  api: Api;
  session: Session;
  token: string | undefined;
  onLoggedIn: () => Promise<void>;
  onRead: () => void;
  /** Somebody may have logged in elsewhere: it is read, and nothing is said of it if not. */
  onLookedAt: () => void;
  children: (session: In) => ComponentChildren;
}) {
  const { session, children } = props;
  const shown = formerOf(session);
  const entrance = session.is === 'in' ? null : <Entrance {...props} session={session} />;
  return (
    <>
      {shown === undefined ? null : (
        <LoginOverContext.Provider key={shown.identity.name} value={session.is !== 'in'}>
          {children(shown)}
        </LoginOverContext.Provider>
      )}
      {entrance === null ? null : shown === undefined ? (
        <main class="login">{entrance}</main>
      ) : (
        <Above onLookedAt={props.onLookedAt}>{entrance}</Above>
      )}
    </>
  );
}

function Entrance(props: Omit<Parameters<typeof Gate>[0], 'session'> & { session: Exclude<Session, In> }) {
  const { api, session, token, onLoggedIn, onRead } = props;
  switch (session.is) {
    case 'checking':
      return <Reading what="who you are" />;
    case 'unreachable':
      return <FailureNotice failure={new Failure('unavailable', session.why)} onRetry={onRead} />;
    case 'out':
    default:
      return <Login api={api} why={session.why} token={token} onLoggedIn={onLoggedIn} />;
  }
}

/** Above questions that are open, too. Whoever comes back to it may have logged in beside, in another tab. */
function Above({ onLookedAt, children }: { onLookedAt: () => void; children: ComponentChildren }) {
  // It is open before the form takes the focus: in what is not open nothing has it.
  const dialog = useOpenDialog();
  const latest = useRef(onLookedAt);
  latest.current = onLookedAt;
  useEffect(() => {
    const look = () => {
      if (document.visibilityState === 'visible') latest.current();
    };
    document.addEventListener('visibilitychange', look);
    return () => document.removeEventListener('visibilitychange', look);
  }, []);
  return (
    <dialog ref={dialog} class="login entrance" aria-label="Log in again" onClose={() => dialog.current?.showModal()}>
      {children}
    </dialog>
  );
}
