/** A page that is open, for tests to press what is on it: bundled and loaded by acts.test.ts, as Node runs no TSX. */
import type { Identity } from '@flynn/controller/access/model';
import { render } from 'preact';
import type { Api } from './api/client.ts';
import type { StreamEvent } from './api/streams.ts';
import { Dashboard } from './dashboard.tsx';
import { FakeDocument, type OpenPage } from './document-fixture.ts';
import { someCluster } from './rendering-fixture.tsx';
import { pageAt } from './routing.ts';
import { WorldFeed } from './world/feed.ts';

/** @public The test has it out of a bundle. Until `close` the document of the process is this page's. */
export function openPage(
  path: string,
  facts: {
    identity: Identity;
    told: readonly StreamEvent[];
    call?: Api['call'];
    /** Of streams other than that of all changes. */
    stream?: Api['stream'];
    onLogOut?: () => Promise<void>;
  },
): OpenPage {
  const { identity, told, call = () => new Promise(() => {}), onLogOut = async () => {} } = facts;
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
  const session = { is: 'in', identity, cluster: someCluster } as const;
  render(
    <Dashboard api={api} feed={feed} session={session} page={pageAt(path)} go={() => {}} onLogOut={onLogOut} />,
    place,
  );
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
