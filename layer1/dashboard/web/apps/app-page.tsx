/** An app: its head, its tabs, and what stands under the one that is open. */
import type { App } from '@flynn/controller/model';
import { Link } from '../parts/link.tsx';
import { Commands, Empty, Reading } from '../parts/notices.tsx';
import { useServices, useWorld } from '../parts/services.ts';
import { Tabs } from '../parts/tabs.tsx';
import type { AppTab, Page } from '../routing.ts';
import { type AppView, viewOf } from '../world/app-state.ts';
import { mayChange } from '../world/abilities.ts';
import { AppBadge } from './app-badge.tsx';
import { BuildPage, Builds } from './builds.tsx';
import { CronLines } from './cron.tsx';
import { DeploymentPage, Deployments } from './deployments.tsx';
import { EnvPage } from './env.tsx';
import { ReleaseName } from './live-release.tsx';
import { LogPage } from '../logs/log-page.tsx';
import { Overview } from './overview.tsx';
import { Releases } from './releases.tsx';
import { Resources } from './resources.tsx';
import { Routes } from './routes.tsx';
import { useCertificates, WebLink } from './web-link.tsx';
import { TerminalPage } from '../terminal/terminal-page.tsx';

const titles: Readonly<Record<AppTab, string>> = {
  '': 'Processes',
  deployments: 'Deployments',
  releases: 'Releases',
  env: 'Variables',
  routes: 'Routes',
  resources: 'Resources',
  cron: 'Schedule',
  builds: 'Builds',
  logs: 'Log',
  terminal: 'Terminal',
};

export function AppPage({ page }: { page: Extract<Page, { is: 'app' }> }) {
  const { session } = useServices();
  const world = useWorld();
  const known = useCertificates();
  const app = world.app(page.name);
  if (app === undefined) {
    return world.isWhole ? (
      <Empty title={`There is no app "${page.name}", or you may not see it.`}>
        <Link to={{ is: 'apps' }}>All apps</Link>
      </Empty>
    ) : (
      <Reading what={page.name} />
    );
  }
  const view = viewOf(world, app);
  return (
    <>
      <div class="page-head">
        <h1>{app.name}</h1>
        <AppBadge state={view.state} />
        <span class="dim">
          <ReleaseName appId={app.id} releaseId={app.releaseId} />
        </span>
        <WebLink routes={view.routes} known={known} class="page-link" />
      </div>
      <Tabs
        label={app.name}
        tabs={tabsOf(app, mayChange(app, session.identity)).map((tab) => ({
          title: titles[tab],
          to: { is: 'app', name: app.name, tab },
          isCurrent: tab === page.tab,
        }))}
      />
      {app.releaseId === undefined && page.tab === '' ? <FirstPush app={app} /> : null}
      <Tab key={app.id} view={view} page={page} />
    </>
  );
}

function tabsOf(app: App, mayChange: boolean): AppTab[] {
  const all: AppTab[] = ['', 'deployments', 'releases', 'env', 'routes', 'resources', 'cron', 'builds', 'logs'];
  const shown =
    app.datastore === undefined ? all : all.filter((tab) => tab !== 'routes' && tab !== 'builds' && tab !== 'cron');
  return mayChange ? [...shown, 'terminal'] : shown;
}

function Tab({ view, page }: { view: AppView; page: Extract<Page, { is: 'app' }> }) {
  switch (page.tab) {
    case '':
      return <Overview view={view} />;
    case 'deployments':
      return page.item === undefined ? <Deployments view={view} /> : <DeploymentPage view={view} id={page.item} />;
    case 'releases':
      return <Releases view={view} />;
    case 'env':
      return <EnvPage view={view} />;
    case 'routes':
      return <Routes view={view} />;
    case 'resources':
      return <Resources app={view.app} />;
    case 'cron':
      return <CronLines app={view.app} />;
    case 'builds':
      return page.item === undefined ? <Builds app={view.app} /> : <BuildPage app={view.app} id={page.item} />;
    case 'logs':
      return <LogPage view={view} />;
    case 'terminal':
    default:
      return <TerminalPage view={view} />;
  }
}

function FirstPush({ app }: { app: App }) {
  return (
    <Empty title="Nothing is deployed yet.">
      <p>In a folder with the code:</p>
      <Commands lines={[`flynn remote add ${app.name}`, 'git push flynn main']} />
      <p>or from an image:</p>
      <Commands lines={[`flynn -a ${app.name} deploy --image REGISTRY/NAME:TAG`]} />
    </Empty>
  );
}
