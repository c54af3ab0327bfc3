import { isAtLeast } from '@flynn/controller/access/roles';
import { Empty } from '../parts/notices.tsx';
import { useServices } from '../parts/services.ts';
import { Tabs } from '../parts/tabs.tsx';
import type { ClusterTab, Page } from '../routing.ts';
import { AuditTrail } from './audit.tsx';
import { ClusterBackups } from './backups.tsx';
import { Certificates } from './certificates.tsx';
import { HostPage, Hosts } from './hosts.tsx';
import { People } from './people.tsx';
import { Status } from './status.tsx';

const titles: Readonly<Record<ClusterTab, string>> = {
  '': 'Status',
  hosts: 'Hosts',
  backups: 'Backups',
  certificates: 'Certificates',
  audit: 'Audit trail',
  people: 'People and tokens',
};

/** Backups are told to admins alone. */
const adminTabs: ReadonlySet<ClusterTab> = new Set(['backups']);

export function ClusterPage({ page }: { page: Extract<Page, { is: 'cluster' }> }) {
  const { session } = useServices();
  const { role } = session.identity;
  if (!isAtLeast(role, 'viewer')) {
    return <Empty title="The cluster is for those who have a role on it; you have roles on apps." />;
  }
  const tabs = (Object.keys(titles) as ClusterTab[]).filter((tab) => role === 'admin' || !adminTabs.has(tab));
  return (
    <>
      <div class="page-head">
        <h1>{session.cluster.name}</h1>
        <span class="dim">
          {session.cluster.domain}, {session.cluster.version}
        </span>
      </div>
      <Tabs
        label="Cluster"
        tabs={tabs.map((tab) => ({ title: titles[tab], to: { is: 'cluster', tab }, isCurrent: tab === page.tab }))}
      />
      <Tab page={page} />
    </>
  );
}

function Tab({ page }: { page: Extract<Page, { is: 'cluster' }> }) {
  switch (page.tab) {
    case '':
      return <Status />;
    case 'hosts':
      return page.item === undefined ? <Hosts /> : <HostPage key={page.item} id={page.item} />;
    case 'backups':
      return <ClusterBackups />;
    case 'certificates':
      return <Certificates />;
    case 'audit':
      return <AuditTrail />;
    case 'people':
    default:
      return <People />;
  }
}
