import type { TestCluster } from '../test-cluster.ts';

/** What a cluster knows of its apps, without when they were last written: the platform writes them by itself. */
export async function appsOf(cluster: TestCluster): Promise<unknown> {
  const { stdout } = await cluster.flynn(['apps', '--all', '--json']);
  const apps = JSON.parse(stdout) as { id: string; name: string; releaseId?: string; meta: object }[];
  return apps.map(({ id, name, releaseId, meta }) => ({ id, name, releaseId, meta }));
}
