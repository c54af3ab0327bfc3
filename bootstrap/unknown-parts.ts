/** Before a cluster goes to a version that lacks a part of the platform: that part goes, as it would only be in the way there. */
import { apps } from '@flynn/controller/api';
import { certificates } from '@flynn/controller/certificates/api';
import { ifFound } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { retry } from '@flynn/kit/retry';
import { domainsOf } from './domain.ts';
import { dashboardApp } from './manifest.ts';
import { type Cluster, dashboardNameOf } from './settings.ts';

const callMs = 20_000;

/**
 * `known`: the other version's images, by what they are for. Only what is dispensable can go, with its routes, and with the
 * certificates of the platform's own for these, which nobody would renew. What is somebody's own stays.
 */
export async function removeUnknownParts(
  client: HttpClient,
  { cluster, known }: { cluster: Cluster; known: Readonly<Record<string, string>> },
): Promise<void> {
  if (Object.hasOwn(known, dashboardApp)) return;
  const app = await called(`looking for ${dashboardApp}`, () =>
    ifFound(client.call(apps.get, { params: { app: dashboardApp } })),
  );
  if (app?.isSystem !== true) return;
  await called(`removing ${dashboardApp}`, () =>
    ifFound(client.call(apps.remove, { params: { app: app.id }, query: {} })),
  );
  const names = new Set(domainsOf(cluster).map((domain) => dashboardNameOf({ domain })));
  const all = await called('reading the certificates', () => client.call(certificates.list, {}));
  for (const { id, source, domains } of all) {
    const [name = ''] = domains;
    if (source !== 'own' || domains.length !== 1 || !names.has(name)) continue;
    await called('removing a certificate', () =>
      ifFound(client.call(certificates.remove, { params: { certificate: id } })),
    );
  }
}

function called<T>(what: string, call: () => Promise<T>): Promise<T> {
  return retry(call, { what, deadlineMs: callMs, maxMs: 1_000 });
}
