import { Component } from 'preact';
import { useId, useState } from 'preact/hooks';
import type { Certificate } from '@flynn/controller/certificates/model';
import type { apps } from '@flynn/controller/api';
import { isAtLeast } from '@flynn/controller/access/roles';
import { useAction } from '../parts/loading.ts';
import { Link } from '../parts/link.tsx';
import { Commands, DoingNotice, Empty, Reading } from '../parts/notices.tsx';
import { useServices, useWorld } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { countText } from '../text.ts';
import { type AppView, isSameRow, type TypeCount, viewOf } from '../world/app-state.ts';
import { AppBadge } from './app-badge.tsx';
import { ReleaseName } from './live-release.tsx';
import { useCertificates, WebLink } from './web-link.tsx';

type Group = 'own' | 'datastore' | 'platform';

function groupOf({ app }: AppView): Group {
  if (app.isSystem) return 'platform';
  return app.datastore === undefined ? 'own' : 'datastore';
}

export function AppList() {
  const { session } = useServices();
  const world = useWorld();
  const [search, setSearch] = useState('');
  const [hasPlatform, setHasPlatform] = useState(false);
  const ids = { search: useId(), platform: useId() };
  if (!world.isWhole) return <Reading what="apps" />;
  const views = world
    .all('app')
    .map((app) => viewOf(world, app))
    .toSorted((a, b) => (a.app.name < b.app.name ? -1 : 1));
  const found = views.filter(({ app }) => app.name.includes(search.trim().toLowerCase()));
  const own = found.filter((view) => groupOf(view) === 'own');
  const datastores = found.filter((view) => groupOf(view) === 'datastore');
  const platform = found.filter((view) => groupOf(view) === 'platform');
  const mayCreate = isAtLeast(session.identity.role, 'developer');
  return (
    <>
      <div class="page-head">
        <h1>Apps</h1>
        <div class="page-side">
          <label class="hidden" for={ids.search}>
            Find an app
          </label>
          <input
            id={ids.search}
            type="search"
            placeholder="Find"
            value={search}
            onInput={(event) => setSearch(event.currentTarget.value)}
          />
          {mayCreate ? <CreateApp /> : null}
        </div>
      </div>
      {own.length === 0 ? (
        <NoApps isSearch={search !== ''} mayCreate={mayCreate} />
      ) : (
        <AppTable caption="Apps" views={own} />
      )}
      {datastores.length === 0 ? null : (
        <>
          <h2>Databases</h2>
          <AppTable caption="Databases" views={datastores} />
        </>
      )}
      {platform.length === 0 ? null : (
        <details open={hasPlatform} onToggle={(event) => setHasPlatform(event.currentTarget.open)}>
          <summary>The platform's own: {countText(platform.length, 'app')}</summary>
          {hasPlatform ? <AppTable caption="The platform's own apps" views={platform} /> : null}
        </details>
      )}
    </>
  );
}

function NoApps({ isSearch, mayCreate }: { isSearch: boolean; mayCreate: boolean }) {
  if (isSearch) return <Empty title="No app has that in its name." />;
  if (!mayCreate) {
    return (
      <Empty title="You see no app yet.">
        <p>Somebody who has one, or an admin, gives you a role on it:</p>
        <Commands lines={['flynn access grant YOUR-NAME developer -a APP']} />
      </Empty>
    );
  }
  return (
    <Empty title="There is no app yet.">
      <p>In a folder with your code:</p>
      <Commands lines={['flynn create shop', 'git push flynn main']} />
    </Empty>
  );
}

function AppTable({ caption, views }: { caption: string; views: readonly AppView[] }) {
  const known = useCertificates();
  return (
    <Table caption={caption} head={['App', 'State', 'Processes', '-Release', 'Deployed', '-Address']}>
      {views.map((view) => (
        <Row key={view.app.id} view={view} known={known} />
      ))}
    </Table>
  );
}

type RowProps = Readonly<{ view: AppView; known: readonly Certificate[] }>;

/** Of hundreds of apps one changes: the others are not drawn anew. */
class Row extends Component<RowProps> {
  override shouldComponentUpdate({ view, known }: RowProps): boolean {
    return known !== this.props.known || !isSameRow(view, this.props.view);
  }

  override render({ view, known }: RowProps) {
    const { app, state, counts, routes, deployment } = view;
    return (
      <tr>
        <th scope="row">
          <Link to={{ is: 'app', name: app.name, tab: '' }}>{app.name}</Link>
        </th>
        <td>
          <AppBadge state={state} />
        </td>
        <td>
          <Counts counts={counts} />
        </td>
        <td class="wide">
          <ReleaseName appId={app.id} releaseId={app.releaseId} />
        </td>
        <td>
          <Time at={deployment?.createdAt} />{' '}
          {deployment?.state === 'failed' ? <span class="short">failed</span> : null}
        </td>
        <td class="wide">
          <WebLink routes={routes} known={known} />
        </td>
      </tr>
    );
  }
}

export function Counts({ counts }: { counts: readonly TypeCount[] }) {
  if (counts.length === 0) return <span class="dim">–</span>;
  return (
    <ul class="counts">
      {counts.map(({ type, wanted, up }) => (
        <li key={type} class={up < wanted ? 'short' : undefined}>
          {type} {up >= wanted ? up : `${up} of ${wanted}`}
        </li>
      ))}
    </ul>
  );
}

function CreateApp() {
  const { api, go } = useServices();
  const [isOpen, setIsOpen] = useState(false);
  const [name, setName] = useState('');
  const id = useId();
  const { doing, run } = useAction(async (once, wanted: string) => {
    const body = wanted === '' ? {} : { name: wanted };
    const app = await api.call<typeof apps.create>('POST /apps', { body }, { once });
    go({ is: 'app', name: app.name, tab: '' });
  });
  if (!isOpen) {
    return (
      <button type="button" class="main" onClick={() => setIsOpen(true)}>
        New app
      </button>
    );
  }
  const submit = (event: Event) => {
    event.preventDefault();
    void run(name.trim());
  };
  return (
    <form class="inline" onSubmit={submit}>
      <label class="hidden" for={id}>
        Name of the new app; without one it is made up
      </label>
      <input
        id={id}
        placeholder="name"
        value={name}
        autoComplete="off"
        onInput={(event) => setName(event.currentTarget.value)}
      />
      <button type="submit" class="main" disabled={doing.is === 'pending'} aria-busy={doing.is === 'pending'}>
        Create
      </button>
      <DoingNotice doing={doing} />
    </form>
  );
}
