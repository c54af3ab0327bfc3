/** All pages of somebody who is logged in. */
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { Api } from './api/client.ts';
import { AppList } from './apps/app-list.tsx';
import { AppPage } from './apps/app-page.tsx';
import type { EnvDraft } from './apps/env-change.ts';
import { ClusterPage } from './cluster/cluster-page.tsx';
import { Link } from './parts/link.tsx';
import { Empty } from './parts/notices.tsx';
import { ServicesContext, useServices } from './parts/services.ts';
import { type Page, pathOf } from './routing.ts';
import type { Session } from './session.ts';
import { Shell } from './shell.tsx';
import type { WorldFeed } from './world/feed.ts';

export function Dashboard(props: {
  api: Api;
  feed: WorldFeed;
  session: Extract<Session, { is: 'in' }>;
  page: Page;
  go: (page: Page) => void;
  onLogOut: () => Promise<void>;
}) {
  const { api, feed, session, page, go, onLogOut } = props;
  const edits = useMemo(() => new Map<string, EnvDraft>(), []);
  return (
    <ServicesContext.Provider value={{ api, feed, session, go, edits }}>
      <Shell page={page} onLogOut={onLogOut}>
        <PageOf page={page} />
      </Shell>
    </ServicesContext.Provider>
  );
}

function PageOf({ page }: { page: Page }) {
  const { session } = useServices();
  const title = titleOf(page);
  const path = pathOf(page);
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = `${title} · ${session.cluster.name}`;
    // Who does not see that there is another page is told by where they are; the first page has it as browsers do.
    if (!isFirst.current) document.getElementById('content')?.focus({ preventScroll: true });
    isFirst.current = false;
  }, [title, path, session.cluster.name]);
  switch (page.is) {
    case 'apps':
    case 'login':
      return <AppList />;
    case 'app':
      return <AppPage page={page} />;
    case 'cluster':
      return <ClusterPage page={page} />;
    case 'unknown':
    default:
      return (
        <Empty title={`There is no page at ${page.path}.`}>
          <Link to={{ is: 'apps' }}>All apps</Link>
        </Empty>
      );
  }
}

function titleOf(page: Page): string {
  switch (page.is) {
    case 'app':
      return [page.name, page.tab, page.item].filter((part) => part !== undefined && part !== '').join(', ');
    case 'cluster':
      return ['Cluster', page.tab, page.item].filter((part) => part !== undefined && part !== '').join(', ');
    case 'apps':
    case 'login':
    case 'unknown':
    default:
      return 'Apps';
  }
}
