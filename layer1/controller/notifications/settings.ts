/** What a notification is to be, from what somebody wants: defaults, and what is refused. */
import { FlynnError } from '@flynn/kit/errors';
import { refusal } from '@flynn/resource/record';
import type { z } from 'zod';
import type { Principal } from '../access/principal.ts';
import { countedPiece, forLiveApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { atField } from '../generic/fields.ts';
import { ownedBy } from '../resources.ts';
import type { wantedFields } from './api.ts';
import { formatOf } from './formats.ts';
import { defaultTopics } from './message.ts';
import { checkChosen, checkOutside, checkReceiver } from './place.ts';
import { urlShown } from './shown.ts';
import { newSigningSecret } from './signature.ts';
import { heartbeatMinutes, notificationType } from './types.ts';
import type { NotificationResource, NotificationSpec } from './types.ts';

export type WantedNotification = Readonly<Partial<z.output<z.ZodObject<typeof wantedFields>>>>;

/** About as many as are of use to anybody; each may keep who sends waiting. */
const maxOfApp = 20;

/** Told of the cluster alone. */
const clusterTopics: ReadonlySet<string> = new Set(['host', 'update', 'heartbeat']);

/** `current`: what it is now, which what is left out stays. Throws `invalid` or `denied` with what to do instead. */
export async function specOf(
  deps: Pick<Deps, 'store' | 'cell'>,
  name: string,
  wanted: WantedNotification,
  context: Readonly<{
    appId: string | undefined;
    current?: NotificationSpec | undefined;
    principal: Pick<Principal, 'isAdmin'>;
    signal: AbortSignal;
  }>,
): Promise<NotificationSpec> {
  const { appId, current, principal, signal } = context;
  const what = `notification ${name}`;
  const asked = wanted.url ?? current?.url;
  if (asked === undefined) throw refusal(what, [{ path: 'url', message: 'write https://HOST/PATH' }]);
  const isSameUrl = current !== undefined && (asked === current.url || asked === urlShown(current.url));
  const text = isSameUrl ? current.url : asked;
  const url = atField(what, 'url', () => checkReceiver(text));
  const on = [...(wanted.on ?? current?.on ?? defaultTopics[appId === undefined ? 'cluster' : 'app'])];
  const ofCluster = appId === undefined ? [] : on.filter((topic) => clusterTopics.has(topic));
  if (ofCluster.length > 0) {
    const message = `${ofCluster.join(', ')}: that is told of the cluster, not of an app`;
    throw refusal(what, [{ path: 'on', message }]);
  }
  // Another address has to be judged anew.
  const isInside = wanted.isInside ?? (isSameUrl && current.isInside);
  const isAllowed = isSameUrl && current.isInside;
  if (isInside && !isAllowed && !principal.isAdmin) {
    throw new FlynnError('denied', 'only an admin of the cluster has notifications sent into it');
  }
  if (isInside) checkChosen(url);
  else await checkOutside(deps, url, signal);
  return {
    name,
    ...(appId === undefined ? {} : { appId }),
    url: text,
    format: wanted.format ?? current?.format ?? formatOf(text),
    on,
    severity: wanted.severity ?? current?.severity ?? 'critical',
    everyMinutes: wanted.everyMinutes ?? current?.everyMinutes ?? heartbeatMinutes.default,
    secret: wanted.secret ?? current?.secret ?? newSigningSecret(),
    isInside,
  };
}

/** `conflict` where there is one of that name. */
export async function addNotification(
  deps: Pick<Deps, 'resources' | 'now'>,
  { spec, labels = {} }: { spec: NotificationSpec; labels?: Readonly<Record<string, string>> | undefined },
  signal: AbortSignal,
): Promise<NotificationResource> {
  const { resources } = deps;
  if (spec.appId === undefined) return resources.create(notificationType, { labels, spec }, { signal });
  return forLiveApp(deps, spec.appId, signal, async (app) => {
    const own = await resources.list(notificationType, { signal, where: (one) => one.spec.appId === app.id });
    if (own.length >= maxOfApp) {
      throw new FlynnError(
        'exhausted',
        `an app has ${maxOfApp} notifications at most: flynn notification remove takes one away`,
      );
    }
    return resources.create(
      notificationType,
      { labels, owner: ownedBy(app.id), spec },
      { signal, also: () => countedPiece(deps, app) },
    );
  });
}
