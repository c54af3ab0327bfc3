/** Pages as text, for tests: bundled and loaded by pages.test.ts, as Node runs no TSX. */
import type { Identity } from '@flynn/controller/access/model';
import type { Figures } from '@flynn/controller/figures/model';
import { renderToString } from 'preact-render-to-string';
import type { Api } from './api/client.ts';
import { Dashboard } from './dashboard.tsx';
import { HourCharts } from './figures/app-charts.tsx';
import type { Mark } from './figures/chart.tsx';
import { hourOf } from './figures/hour.ts';
import { Login } from './login.tsx';
import { pageAt } from './routing.ts';
import { WorldFeed } from './world/feed.ts';
import type { StreamEvent } from './api/streams.ts';

export const someCluster = {
  name: 'test',
  domain: 'flynn.example.com',
  formerDomains: [],
  gitUrl: 'ssh://git@flynn.example.com:2222',
  httpPort: 80,
  version: '0',
  keepsRegistryLogins: true,
  heedsBuildPlace: true,
};

/** Nothing is asked while a page is drawn for the first time. */
const api: Api = {
  call: () => new Promise(() => {}),
  stream: () => new Promise(() => {}),
  hasSession: async () => true,
  logIn: async () => {},
  logOut: async () => {},
};

/** @public The test has it out of a bundle. */
export function renderPage(path: string, facts: { identity: Identity; told: readonly StreamEvent[] }): string {
  const feed = new WorldFeed(facts.identity);
  for (const event of facts.told) feed.world.take(event);
  const session = { is: 'in', identity: facts.identity, cluster: someCluster } as const;
  return renderToString(
    <Dashboard api={api} feed={feed} session={session} page={pageAt(path)} go={() => {}} onLogOut={async () => {}} />,
  );
}

/** @public */
export function renderLogin(why?: string, token?: string): string {
  return renderToString(<Login api={api} why={why} token={token} onLoggedIn={async () => {}} />);
}

/** @public */
export function renderCharts(told: Figures, marks: readonly Mark[], nowMs: number): string {
  return renderToString(
    <HourCharts
      name="shop"
      hour={hourOf(told)}
      isAsked={told.requests !== undefined}
      knownFrom={200}
      marks={marks}
      nowMs={nowMs}
    />,
  );
}
