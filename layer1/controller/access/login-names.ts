/** Is a login for this cluster? It says at which name of the controller somebody logs in: that has to be one of its own. */
import { FlynnError, ifFound } from '@flynn/kit/errors';
import { isAmong } from '../certificates/domains.ts';
import { findApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { ownedBy, routeType } from '../resources.ts';
import { type Bound, nonceFor } from './login-nonce.ts';
import type { OidcSettings } from './oidc.ts';

const controllerApp = 'controller';

/** Throws `denied`. Asked before the provider is: what it would say makes no difference. */
export async function checkIsForUs(
  deps: Pick<Deps, 'resources'>,
  { takesUnbound = false }: Pick<OidcSettings, 'takesUnbound'>,
  { bound, nonce }: { bound?: Bound | undefined; nonce: string },
  signal: AbortSignal,
): Promise<void> {
  if (bound === undefined) {
    if (takesUnbound) return;
    throw new FlynnError(
      'denied',
      'this flynn command is of a version before, and does not say for which cluster its login is: whoever runs another one could use it here. ' +
        'Run the version that this cluster has, and log in again; until all have it, an admin may set FLYNN_OIDC_UNBOUND_LOGINS=allowed (docs/access.md)',
    );
  }
  const { host } = bound;
  if (nonceFor(bound) !== nonce) throw new FlynnError('denied', `the login was not begun for ${host}: start again`);
  if (isAmong(await ownNames(deps, signal), host)) return;
  throw new FlynnError(
    'denied',
    `this login is for ${host}, and the controller of this cluster has no route of that name: log in at one that it has, ` +
      `or an admin adds it, flynn -a ${controllerApp} route add http ${host}`,
  );
}

async function ownNames({ resources }: Pick<Deps, 'resources'>, signal: AbortSignal): Promise<ReadonlySet<string>> {
  const app = await ifFound(findApp({ resources }, controllerApp, signal));
  if (app?.spec.isSystem !== true) return new Set();
  const routes = await resources.list(routeType, { owner: ownedBy(app.id), signal });
  return new Set(
    routes.flatMap(({ spec }) => (spec.type === 'http' && spec.domain !== undefined ? [spec.domain] : [])),
  );
}
