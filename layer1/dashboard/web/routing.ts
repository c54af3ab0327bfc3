/** Which page is at an address, and the other way round. Pure. */
export const appTabs = [
  '',
  'deployments',
  'releases',
  'env',
  'routes',
  'resources',
  'cron',
  'builds',
  'logs',
  'terminal',
] as const;
export type AppTab = (typeof appTabs)[number];

export const clusterTabs = ['', 'hosts', 'backups', 'certificates', 'audit', 'people'] as const;
export type ClusterTab = (typeof clusterTabs)[number];

export type Page =
  | Readonly<{ is: 'apps' }>
  | Readonly<{ is: 'login' }>
  /** `item`: one deployment, or one build, of the tab. */
  | Readonly<{ is: 'app'; name: string; tab: AppTab; item?: string }>
  | Readonly<{ is: 'cluster'; tab: ClusterTab; item?: string }>
  | Readonly<{ is: 'unknown'; path: string }>;

/** Tabs that have a page for each of what they list. */
const withItems: ReadonlySet<string> = new Set(['deployments', 'builds', 'hosts']);

export function pageAt(path: string): Page {
  const unknown = { is: 'unknown', path } as const;
  const parts = path
    .split('/')
    .filter((part) => part !== '')
    .map(decoded);
  if (parts.includes(undefined)) return unknown;
  const [first, ...rest] = parts as string[];
  if (first === undefined || (first === 'apps' && rest.length === 0)) return { is: 'apps' };
  if (first === 'login' && rest.length === 0) return { is: 'login' };
  if (first === 'apps') {
    const [name = '', wanted = '', ...items] = rest;
    const tab = appTabs.find((known) => known === wanted);
    return tab === undefined || isTooLong(tab, items) ? unknown : { is: 'app', name, tab, ...itemOf(items) };
  }
  if (first !== 'cluster') return unknown;
  const [wanted = '', ...items] = rest;
  const tab = clusterTabs.find((known) => known === wanted);
  return tab === undefined || isTooLong(tab, items) ? unknown : { is: 'cluster', tab, ...itemOf(items) };
}

export function pathOf(page: Page): string {
  switch (page.is) {
    case 'apps':
      return '/';
    case 'login':
      return '/login';
    case 'app':
      return joined('apps', page.name, page.tab, page.item);
    case 'cluster':
      return joined('cluster', page.tab, page.item);
    case 'unknown':
    default:
      return page.path;
  }
}

function isTooLong(tab: string, items: readonly string[]): boolean {
  return items.length > (withItems.has(tab) ? 1 : 0);
}

function itemOf([item]: readonly string[]): { item?: string } {
  return item === undefined ? {} : { item };
}

function joined(...parts: readonly (string | undefined)[]): string {
  return `/${parts.flatMap((part) => (part === undefined || part === '' ? [] : [encodeURIComponent(part)])).join('/')}`;
}

function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}
