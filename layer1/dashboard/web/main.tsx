/** The pages of the dashboard: alone here the document and its address are touched as a whole. */
import { render } from 'preact';
import { useCallback, useEffect, useMemo, useState } from 'preact/hooks';
import { createApi } from './api/client.ts';
import { asFailure, Failure } from './api/failure.ts';
import { Dashboard } from './dashboard.tsx';
import { Gate } from './gate.tsx';
import { followTokens, takeToken } from './given-token.ts';
import { Question } from './parts/acts.tsx';
import { useIsWatched } from './parts/watched.ts';
import { type Page, pageAt, pathOf } from './routing.ts';
import { endSession, loggedOutElsewhere, readSession, type Session, sessionOver, sessionRead } from './session.ts';
import { followTabs, tellTabs } from './tabs.ts';
import { WorldFeed } from './world/feed.ts';

/** Out of the address and the history before anything else happens. */
const givenToken = takeToken(window);

const tabs = new BroadcastChannel('flynn-login');

function Main() {
  const [session, setSession] = useState<Session>({ is: 'checking' });
  const [page, setPage] = useState<Page>(() => pageAt(location.pathname));
  const [token, setToken] = useState(givenToken);

  const api = useMemo(
    () =>
      createApi({
        fetch: (url, init) => fetch(url, init),
        onSessionOver: () => setSession(sessionOver),
      }),
    [],
  );
  const read = useCallback(async () => {
    const told = await readSession(api).catch(asFailure);
    setSession((known) => sessionRead(known, told));
  }, [api]);
  const look = useCallback(async () => {
    const told = await readSession(api).catch(asFailure);
    if (!(told instanceof Failure) && told.is === 'in') setSession(told);
  }, [api]);
  const go = useCallback((to: Page) => {
    history.pushState(undefined, '', pathOf(to));
    setPage(to);
    window.scrollTo(0, 0);
  }, []);

  useEffect(() => void read(), [read]);
  useEffect(() => followTokens(window, setToken), []);
  // Pages of one person that ask as another would show and change what is not theirs.
  useEffect(
    () => followTabs(tabs, (change) => (change === 'out' ? setSession(loggedOutElsewhere) : void look())),
    [look],
  );
  useEffect(() => {
    const listen = () => setPage(pageAt(location.pathname));
    addEventListener('popstate', listen);
    return () => removeEventListener('popstate', listen);
  }, []);
  useEffect(() => {
    if (session.is === 'in' && page.is === 'login' && token === undefined) {
      history.replaceState(undefined, '', '/');
      setPage({ is: 'apps' });
    }
  }, [session, page, token]);

  const logOut = useCallback(async () => {
    setSession(await endSession(api));
    tellTabs(tabs, 'out');
  }, [api]);
  const onLoggedIn = useCallback(async () => {
    setToken(undefined);
    tellTabs(tabs, 'in');
    await read();
  }, [read]);

  return (
    <>
      {session.is === 'in' && token !== undefined ? (
        <Question
          title="Log in as somebody else?"
          confirm="Log in"
          act={async () => {
            await api.logIn(token);
            tellTabs(tabs, 'in');
            location.assign('/');
          }}
          onClose={() => setToken(undefined)}
        >
          <p>
            You are logged in as {session.identity.name}. The address that you opened has a token, which may be
            another's.
          </p>
        </Question>
      ) : null}
      <Gate
        api={api}
        session={session}
        token={token}
        onLoggedIn={onLoggedIn}
        onRead={() => void read()}
        onLookedAt={() => void look()}
      >
        {(shown) => <SessionPages api={api} session={shown} page={page} go={go} onLogOut={logOut} />}
      </Gate>
    </>
  );
}

/** One stream of changes for as long as somebody is logged in. */
function SessionPages(props: Omit<Parameters<typeof Dashboard>[0], 'feed'>) {
  const { api, session } = props;
  const feed = useMemo(() => new WorldFeed(session.identity), []);
  const isWatched = useIsWatched();
  useEffect(() => {
    if (!isWatched) return undefined;
    const ended = new AbortController();
    void feed.run(api, ended.signal);
    return () => ended.abort();
  }, [api, feed, isWatched]);
  return <Dashboard {...props} feed={feed} />;
}

const root = document.getElementById('root');
if (root !== null) render(<Main />, root);
