/** A page that is open, for tests to press what is on it: bundled and loaded by acts.test.ts, as Node runs no TSX. */
import type { Identity } from '@flynn/controller/access/model';
import { type ComponentChild, render } from 'preact';
import { useState } from 'preact/hooks';
import type { Api } from './api/client.ts';
import type { StreamEvent } from './api/streams.ts';
import { Dashboard } from './dashboard.tsx';
import { FakeDocument, type OpenPage } from './document-fixture.ts';
import { Gate } from './gate.tsx';
import { someCluster } from './rendering-fixture.tsx';
import { type Page, pageAt } from './routing.ts';
import type { Session } from './session.ts';
import { WorldFeed } from './world/feed.ts';

type Facts = {
  identity: Identity;
  told: readonly StreamEvent[];
  call?: Api['call'];
  /** Of streams other than that of all changes. */
  stream?: Api['stream'];
  onLogOut?: () => Promise<void>;
};

/** @public The test has it out of a bundle. Until `close` the document of the process is this page's. */
export function openPage(path: string, facts: Facts): OpenPage {
  const page = pageAt(path);
  const { onLogOut = async () => {} } = facts;
  return open(facts, ({ api, feed, session }) => (
    <Dashboard api={api} feed={feed} session={session} page={page} go={() => {}} onLogOut={onLogOut} />
  ));
}

/** @public With what is there for whoever is logged in no more. `be`: another session from then on; `visit`: another page. */
export function openGate(path: string, facts: Facts): Gated {
  const own = { is: 'in', identity: facts.identity, cluster: someCluster } as const;
  const place: Pick<Gated, 'be' | 'visit'> = { be: () => {}, visit: () => {} };
  const Gated = ({ api, feed }: Surroundings) => {
    const [session, be] = useState<Session>(own);
    const [page, setPage] = useState<Page>(pageAt(path));
    place.be = be;
    place.visit = (to) => setPage(pageAt(to));
    return (
      <Gate
        api={api}
        session={session}
        token={undefined}
        onLoggedIn={async () => {}}
        onRead={() => {}}
        onLookedAt={() => {}}
      >
        {(shown) => (
          <Dashboard api={api} feed={feed} session={shown} page={page} go={() => {}} onLogOut={async () => {}} />
        )}
      </Gate>
    );
  };
  const opened = open(facts, (surroundings) => <Gated {...surroundings} />);
  return { ...opened, session: own, be: (session) => place.be(session), visit: (to) => place.visit(to) };
}

type Gated = OpenPage & { be: (session: Session) => void; visit: (path: string) => void; session: In };
type In = Extract<Session, { is: 'in' }>;
type Surroundings = Readonly<{ api: Api; feed: WorldFeed; session: In }>;

function open(facts: Facts, draw: (surroundings: Surroundings) => ComponentChild): OpenPage {
  const { identity, told, call = () => new Promise(() => {}) } = facts;
  const stream = new TransformStream<Uint8Array, Uint8Array>();
  const writer = stream.writable.getWriter();
  const tell = ({ event, data }: StreamEvent) =>
    void writer.write(new TextEncoder().encode(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`));
  const api: Api = {
    call,
    stream: async (url, options) =>
      facts.stream === undefined || url.startsWith('/api/events') ? stream.readable : facts.stream(url, options),
    hasSession: async () => true,
    logIn: async () => {},
    logOut: async () => {},
  };
  const feed = new WorldFeed(identity);
  const ended = new AbortController();
  const running = feed.run(api, ended.signal);
  for (const event of told) tell(event);
  const document = new FakeDocument();
  const place = document.root as unknown as Element;
  Reflect.set(globalThis, 'document', document);
  render(draw({ api, feed, session: { is: 'in', identity, cluster: someCluster } }), place);
  return {
    document,
    tell,
    async close() {
      render(null, place);
      ended.abort();
      // Silent for long it was given up on already.
      await writer.abort();
      await running;
      Reflect.deleteProperty(globalThis, 'document');
    },
  };
}
