/** The kinds Route and Key: small things that are made by rules of their own. */
import { refusal } from '@flynn/resource/record';
import { serviceName } from '@flynn/kit/names';
import { z } from 'zod';
import { checkRoutePlace, checkRouteTarget } from '../access/neighbours.ts';
import { serviceNameOf } from '../compile.ts';
import { findApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { differences } from './difference.ts';
import { atField } from './fields.ts';
import { defineKind } from './kind.ts';
import type { Applied, ApplyContext, Wanted } from './kind.ts';
import { addKey, keyIdOf } from '../keys.ts';
import { findBasis } from '../releases.ts';
import { appType, keyType, routeType } from '../resources.ts';
import { normalizeDomain, normalizePath } from '../route-address.ts';
import { createRoute } from '../routing.ts';
import { parseSshKey } from '../ssh-key.ts';

const wantedRouteSchema = z.strictObject({
  domain: z.string().optional(),
  path: z.string().optional(),
  port: z.int().min(1).max(65_535).optional(),
  /** Default: APP-web. */
  service: serviceName.optional(),
});

export const routeKind = defineKind({
  type: routeType,
  summary: 'where an app answers: a domain and a path, or a port',
  columns: { APP: 'owner', SERVICE: 'spec.service' },
  wanted: wantedRouteSchema,
  // Of a file of everything it is part of the app.
  isExported: false,
  async view(_deps, { spec }) {
    const { domain, path, port, service } = spec;
    return {
      spec: port === undefined ? { ...(domain === undefined ? {} : { domain }), path, service } : { port, service },
    };
  },
  apply: applyRoute,
});

/** Its name is its place, so it can be left out. */
async function applyRoute(
  deps: Deps,
  { spec, owner }: Wanted<z.output<typeof wantedRouteSchema>>,
  { isDryRun, signal, principal }: ApplyContext,
): Promise<Applied> {
  if (owner?.type !== 'app') {
    throw refusal('route', [{ path: 'owner', message: 'it belongs to an app, say which: owner: app/NAME' }]);
  }
  const isHttp = spec.port === undefined;
  if (isHttp === (spec.domain === undefined)) {
    throw refusal('route', [{ path: '', message: 'a route has a domain (and a path), or a port' }]);
  }
  const address = isHttp
    ? {
        domain: atField('route', 'domain', () => normalizeDomain(spec.domain ?? '')),
        path: atField('route', 'path', () => normalizePath(spec.path ?? '/')),
      }
    : { port: spec.port };
  const name = isHttp ? `${address.domain}${address.path}` : `tcp:${spec.port}`;
  const [current] = await deps.resources.list(routeType, { object: name, signal });
  if (current !== undefined && current.owner?.id !== owner.id) {
    throw refusal(`route ${name}`, [{ path: 'owner', message: 'another app has this route' }]);
  }
  // That of a dry run may be about to be made.
  const app = isDryRun
    ? await deps.resources.find(appType, owner.id, { signal })
    : await findApp(deps, owner.id, signal);
  const service = spec.service ?? current?.spec.service ?? serviceNameOf(app?.spec.name ?? owner.id, 'web');
  const before = current === undefined ? {} : { spec: { ...address, service: current.spec.service } };
  const changes = differences(before, { spec: { ...address, service } });
  if (app !== undefined && changes.length > 0) {
    const processes = async () => (await findBasis(deps, app, signal))?.spec.processes ?? {};
    await checkRouteTarget(principal, app, service, processes);
    if (address.domain !== undefined) await checkRoutePlace(deps, principal, app, address.domain, signal);
  }
  if (!isDryRun && current === undefined) {
    await createRoute(deps, owner.id, { type: isHttp ? 'http' : 'tcp', ...address, service }, signal);
  } else if (!isDryRun && current !== undefined && changes.length > 0) {
    await deps.resources.update(routeType, current.id, (route) => ({ ...route.spec, service }), { signal });
  }
  return { name, isNew: current === undefined, changes };
}

const wantedKeySchema = z.strictObject({
  /** As in the file that ends in .pub. */
  publicKey: z.string(),
});

export const keyKind = defineKind({
  type: keyType,
  summary: 'an SSH public key that may push',
  columns: { COMMENT: 'status.comment' },
  wanted: wantedKeySchema,
  async find(deps, name, signal) {
    return deps.resources.find(keyType, name.startsWith('SHA256:') ? keyIdOf(name) : name, { signal });
  },
  async view(_deps, { spec }) {
    const { fingerprint, publicKey, comment } = spec;
    return { name: fingerprint, spec: { publicKey: `${publicKey} ${comment}`.trim() }, status: { comment } };
  },
  apply: applyKey,
});

/** Its name is its fingerprint, so it can be left out. */
async function applyKey(
  deps: Deps,
  { spec }: Wanted<z.output<typeof wantedKeySchema>>,
  { isDryRun, signal, principal: { userId } }: ApplyContext,
): Promise<Applied> {
  const { fingerprint, publicKey } = atField('key', 'publicKey', () => parseSshKey(spec.publicKey));
  const known = await deps.resources.find(keyType, keyIdOf(fingerprint), { signal });
  if (!isDryRun && known === undefined)
    await addKey(deps, { text: spec.publicKey, ...(userId === undefined ? {} : { userId }) }, signal);
  // A key is what it is: who has it again with another comment keeps the first.
  const changes = known === undefined ? differences({}, { spec: { publicKey } }) : [];
  return { name: fingerprint, isNew: known === undefined, changes };
}
