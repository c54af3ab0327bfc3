/** What is around every page: where one is, who one is, and whether what is shown is still so. */
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { isAtLeast } from '@flynn/controller/access/roles';
import type { Link as Connection } from './api/following.ts';
import { useAction } from './parts/loading.ts';
import { Link } from './parts/link.tsx';
import { DoingNotice } from './parts/notices.tsx';
import { useServices } from './parts/services.ts';
import type { Page } from './routing.ts';
import { roleText } from './session.ts';

/** A blink of the connection is nobody's concern. */
const patienceMs = 2_000;

export function Shell({
  page,
  onLogOut,
  children,
}: {
  page: Page;
  onLogOut: () => Promise<void>;
  children: ComponentChildren;
}) {
  const { session } = useServices();
  const { identity, cluster } = session;
  const { doing, run } = useAction(onLogOut);
  return (
    <>
      <a class="skip" href="#content">
        To the content
      </a>
      <header class="top">
        <Link to={{ is: 'apps' }} class="brand">
          flynn <span class="dim">{cluster.name}</span>
        </Link>
        <nav aria-label="Main">
          <Link to={{ is: 'apps' }} isCurrent={page.is === 'apps' || page.is === 'app'}>
            Apps
          </Link>
          {isAtLeast(identity.role, 'viewer') ? (
            <Link to={{ is: 'cluster', tab: '' }} isCurrent={page.is === 'cluster'}>
              Cluster
            </Link>
          ) : null}
        </nav>
        <div class="who">
          <span title={expiryText(identity.token?.expiresAt)}>
            {identity.name} <span class="dim">{roleText(identity)}</span>
          </span>
          <button type="button" class="plain small" disabled={doing.is === 'pending'} onClick={() => void run()}>
            Log out
          </button>
        </div>
      </header>
      <ConnectionNotice />
      <main id="content" tabIndex={-1}>
        <DoingNotice doing={doing} />
        {children}
      </main>
    </>
  );
}

function expiryText(expiresAt: string | undefined): string | undefined {
  return expiresAt === undefined ? undefined : `logged in until ${new Date(expiresAt).toLocaleString()}`;
}

function ConnectionNotice() {
  const { feed } = useServices();
  const [link, setLink] = useState<Connection>({ is: 'live' });
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const listen = () => {
      clearTimeout(timer);
      const now = feed.link;
      timer = setTimeout(() => setLink(now), now.is === 'lost' ? patienceMs : 0);
    };
    listen();
    const stop = feed.subscribe(listen);
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [feed]);
  const isBad = link.is === 'lost' || link.is === 'refused';
  return (
    <div role="status" class={isBad ? 'banner' : 'banner-none'}>
      {link.is === 'lost' ? `Not connected, what you see may be old: ${link.why}. Trying again by itself.` : null}
      {link.is === 'refused' ? `What changes is not told any more: ${link.why}. Load the page again.` : null}
    </div>
  );
}
