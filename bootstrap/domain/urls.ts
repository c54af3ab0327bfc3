/** Under which names and addresses people reach the cluster. */
import type { Cluster } from '../settings.ts';

/** What it is asked for by, of each domain of the cluster. */
export function controllerNameOf({ domain }: Pick<Cluster, 'domain'>): string {
  return `controller.${domain}`;
}

export function dashboardNameOf({ domain }: Pick<Cluster, 'domain'>): string {
  return `dashboard.${domain}`;
}

export function controllerUrlOf(cluster: Pick<Cluster, 'domain' | 'httpPort'>): string {
  return `http://${controllerNameOf(cluster)}${portSuffix(cluster.httpPort)}`;
}

/** Where the router shows the certificate that `up` made for the controller. */
export function secureControllerUrlOf(cluster: Pick<Cluster, 'domain' | 'httpPort' | 'httpsPort'>): string {
  const port = httpsPortOf(cluster);
  return `https://${controllerNameOf(cluster)}${port === 443 ? '' : `:${port}`}`;
}

export function appUrlOf(app: string, cluster: Pick<Cluster, 'domain' | 'httpPort'>): string {
  return `http://${app}.${cluster.domain}${portSuffix(cluster.httpPort)}`;
}

/** 443 beside 80, 8443 beside 8080. */
export function httpsPortOf({ httpPort, httpsPort }: Pick<Cluster, 'httpPort' | 'httpsPort'>): number {
  return httpsPort ?? httpPort + 363;
}

function portSuffix(httpPort: number): string {
  return httpPort === 80 ? '' : `:${httpPort}`;
}

/** Not every resolver knows that names under .localhost are this machine; all know localhost. */
export function gitHostOf(cluster: Pick<Cluster, 'domain'>): string {
  return cluster.domain.endsWith('.localhost') ? 'localhost' : cluster.domain;
}

export function gitUrlOf(cluster: Pick<Cluster, 'domain' | 'gitPort'>): string {
  return `ssh://git@${gitHostOf(cluster)}:${cluster.gitPort}`;
}
