/** Before a cluster goes to a version that lacks a part of the platform: that part goes, as it would only be in the way there. */
import { tokens } from '@flynn/controller/access/api';
import { apps, formations } from '@flynn/controller/api';
import { certificates } from '@flynn/controller/certificates/api';
import { routing } from '@flynn/controller/routes/api';
import { ifFound } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { retry } from '@flynn/kit/retry';
import { isOfAuthority } from '../joining/certificates.ts';
import { domainsOf } from '../domain/domain.ts';
import type { LeftCounts } from './left-counts.ts';
import { dashboardApp } from './manifest.ts';
import { type Cluster } from '../settings.ts';
import { dashboardNameOf } from '../domain/urls.ts';

const callMs = 20_000;

type Removal = Readonly<{
  cluster: Pick<Cluster, 'authority' | 'domain' | 'domains'>;
  /** The other version's images, by what they are for. */
  known: Readonly<Record<string, string>>;
  /** Throws where the cluster cannot go there anyway: then nothing goes. Asked only if something would. */
  check?: () => Promise<void>;
  /** Told before it goes how many there are of what, so that as many come back. */
  keep: (counts: LeftCounts) => Promise<void>;
  /** What is gone, and how it comes back, in lines for people. */
  tell: (line: string) => void;
}>;

/**
 * Only what is dispensable can go, with its routes, and with the certificates that the cluster's authority made for these, which
 * nobody would renew; and links for logging in, which versions without a web page take for tokens. What is somebody's own stays.
 */
export async function removeUnknownParts(
  client: Pick<HttpClient, 'call'>,
  { cluster, known, check, keep, tell }: Removal,
): Promise<void> {
  if (Object.hasOwn(known, dashboardApp)) return;
  const app = await called(`looking for ${dashboardApp}`, () =>
    ifFound(client.call(apps.get, { params: { app: dashboardApp } })),
  );
  const links = (await called('reading the tokens', () => client.call(tokens.list, {}))).filter(
    ({ isLink }) => isLink === true,
  );
  const goes = app?.isSystem === true ? app : undefined;
  if (goes === undefined && links.length === 0) return;
  await check?.();
  for (const { id } of links) {
    await called('taking back a link', () => ifFound(client.call(tokens.revoke, { params: { token: id } })));
  }
  if (goes === undefined) return;
  const { releaseId: release } = goes;
  if (release !== undefined) {
    const { processes } = await called('reading the counts', () =>
      client.call(formations.get, { params: { app: goes.id, release } }),
    );
    await keep({ [dashboardApp]: processes });
  }
  const routes = await called('reading the routes', () => client.call(routing.list, { params: { app: goes.id } }));
  // Before the app, by which whoever goes on after an interruption finds them.
  const had = new Set(routes.map(({ domain }) => domain));
  const names = new Set(domainsOf(cluster).map((domain) => dashboardNameOf({ domain })));
  const all = await called('reading the certificates', () => client.call(certificates.list, {}));
  for (const { id, source, issuer, domains } of all) {
    const [name = ''] = domains;
    if (domains.length !== 1 || !names.has(name) || !had.has(name)) continue;
    if (!isOfAuthority({ source, issuer }, cluster)) continue;
    await called('removing a certificate', () =>
      ifFound(client.call(certificates.remove, { params: { certificate: id } })),
    );
  }
  await called(`removing ${dashboardApp}`, () =>
    ifFound(client.call(apps.remove, { params: { app: goes.id }, query: {} })),
  );
  tell(
    `That version has no web page: ${dashboardApp} is deleted. The next version that has one brings it back, as many as there were.`,
  );
}

function called<T>(what: string, call: () => Promise<T>): Promise<T> {
  return retry(call, { what, deadlineMs: callMs, maxMs: 1_000 });
}
