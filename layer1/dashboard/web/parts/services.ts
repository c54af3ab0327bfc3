/** What every page stands on, handed down once. */
import { createContext } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import type { Api } from '../api/client.ts';
import type { EnvDraft } from '../apps/env-change.ts';
import type { Page } from '../routing.ts';
import type { Session } from '../session.ts';
import type { WorldFeed } from '../world/feed.ts';
import type { World } from '../world/world.ts';

export type Services = Readonly<{
  api: Api;
  feed: WorldFeed;
  session: Extract<Session, { is: 'in' }>;
  go: (page: Page) => void;
  /** Of variables, by apps' ids: what was not saved yet is there for who comes back to the page. */
  edits: Map<string, EnvDraft>;
}>;

export const ServicesContext = createContext<Services | undefined>(undefined);

export function useServices(): Services {
  const services = useContext(ServicesContext);
  if (services === undefined) throw new Error('a page is drawn outside of a session');
  return services;
}

/** The world, drawn anew when it changes. */
export function useWorld(): World {
  const { feed } = useServices();
  const [, setVersion] = useState(feed.version);
  useEffect(() => {
    const listen = () => setVersion(feed.version);
    listen();
    return feed.subscribe(listen);
  }, [feed]);
  return feed.world;
}
