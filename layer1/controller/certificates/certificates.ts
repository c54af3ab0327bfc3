/** Certificates: brought by people, taken away, listed, and told to routers. */
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { ServerEvent } from '@flynn/kit/routes';
import { resourcePrefix } from '@flynn/resource/keys';
import { decodeResource } from '@flynn/resource/record';
import type { Entry } from '@flynn/store/store';
import { principalOf } from '../access/principal.ts';
import type { Deps } from '../deps.ts';
import { pageOf } from '../paging.ts';
import { normalizeDomain } from '../routes/address.ts';
import { certificates } from './api.ts';
import { checkCertificate } from './check.ts';
import { checkHolds, checkReplaces, domainOwners } from './domains.ts';
import { find, put } from './put.ts';
import { certificateType } from './resources.ts';
import type { CertificateResource } from './resources.ts';
import { ticketsType } from './tickets.ts';
import { servedOf, viewCertificate } from './view.ts';

export function certificateHandlers(deps: Deps): Handler[] {
  const { resources, now } = deps;
  return [
    handle(certificates.add, async (call) => {
      const { body, signal } = call;
      const domains = [...new Set(body.domains.map(normalizeDomain))];
      const owners = await domainOwners(deps, principalOf(call), signal);
      checkHolds(owners, domains, 'developer');
      const own = checkCertificate({ ...body, domains, nowMs: now() });
      const replace = ({ spec }: CertificateResource) => {
        checkReplaces(owners, spec.domains, 'developer');
        return certificateType.initialStatus();
      };
      const spec = { source: 'own' as const, domains, own, isAutomatic: false };
      return viewCertificate(await put(deps, spec, { replace, signal }), now());
    }),
    handle(certificates.list, async (call) => {
      const { query, signal } = call;
      const owners = await domainOwners(deps, principalOf(call), signal);
      const all = await resources.list(certificateType, {
        signal,
        where: ({ spec }) => owners.holds(spec.domains, 'viewer'),
      });
      const sorted = all.toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
      return pageOf(sorted, query, ({ id }) => id).map((one) => viewCertificate(one, now()));
    }),
    handle(certificates.remove, async (call) => {
      const { params, signal } = call;
      const owners = await domainOwners(deps, principalOf(call), signal);
      const found = await find(deps, params.certificate, signal);
      if (found === undefined || !owners.holds(found.spec.domains, 'developer')) {
        throw new FlynnError(
          'not_found',
          `there is no certificate for ${params.certificate}; list them with: flynn route cert`,
        );
      }
      await resources.delete(certificateType, found.id, { signal });
    }),
    handle(certificates.events, async (call) => {
      // Not even who may do everything gets to see keys: routers show that they are routers.
      if (principalOf(call).service !== 'router') {
        throw new FlynnError('denied', 'keys of certificates are for routers alone, with their own token');
      }
      return certificateEvents(deps, call.signal);
    }),
  ];
}

function nameOf({ spec }: CertificateResource): string {
  return spec.domains[0] ?? '';
}

const certificatePrefix = resourcePrefix(certificateType.name);
const ticketsPrefix = resourcePrefix(ticketsType.name);
/** Above the keys of both. */
const feedPrefix = certificatePrefix.replace(/\/$/, '');

/** One that cannot be read must not cost routers all the others, nor itself: it is told that it is there. */
function feedEvent({ log }: Pick<Deps, 'log'>, entry: Entry): ServerEvent | undefined {
  const isCertificate = entry.key.startsWith(certificatePrefix);
  try {
    if (isCertificate) return { event: 'set', data: servedOf(decodeResource(certificateType, entry)) };
    const key = entry.key.startsWith(ticketsPrefix) ? decodeResource(ticketsType, entry).status.key : undefined;
    return key === undefined ? undefined : { event: 'tickets', data: { key } };
  } catch (error) {
    log.error({ err: error, entry: entry.key }, 'a certificate could not be read: routers keep what they know of it');
    return isCertificate ? { event: 'unreadable', data: { id: idOf(entry.key) } } : undefined;
  }
}

function idOf(key: string): string {
  return key.slice(certificatePrefix.length);
}

async function* certificateEvents(
  { store, log }: Pick<Deps, 'store' | 'log'>,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent> {
  const { entries, revision } = await store.list(feedPrefix, { signal });
  for (const entry of entries) {
    const event = feedEvent({ log }, entry);
    if (event !== undefined) yield event;
  }
  yield { event: 'current', data: {} };
  for await (const { changes } of store.watch(feedPrefix, { after: revision, signal })) {
    for (const change of changes) {
      if (change.type === 'put') {
        const event = feedEvent({ log }, change.entry);
        if (event !== undefined) yield event;
      } else if (change.key.startsWith(certificatePrefix)) {
        yield { event: 'remove', data: { id: idOf(change.key) } };
      }
    }
  }
}
