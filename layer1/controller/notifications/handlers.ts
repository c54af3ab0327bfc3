/** Notifications as people make them, try them and look at what was sent. */
import { FlynnError, ifFound } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import { isAtLeast } from '../access/roles.ts';
import { findApp, noApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { appType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { notifications } from './api.ts';
import type { Delivery, Notification } from './api.ts';
import { isAccepted, withTest } from './queue.ts';
import { sendOverHttp } from './sender.ts';
import type { Send } from './sender.ts';
import { sendMessage, testMessage } from './sending.ts';
import { addNotification, specOf } from './settings.ts';
import { statusOf, urlShown } from './shown.ts';
import { notificationType } from './types.ts';
import type { NotificationResource, NotificationSpec } from './types.ts';

export function notificationHandlers(deps: Deps, send: Send = sendOverHttp): Handler[] {
  const { resources, now, newId } = deps;
  return [
    handle(notifications.create, async (call) => {
      const { signal } = call;
      const { name, app: appName, ...wanted } = call.body;
      const principal = principalOf(call);
      if (appName === undefined && !principal.isAdmin) {
        throw new FlynnError('denied', 'only an admin of the cluster has its notifications sent: name an app');
      }
      const app = appName === undefined ? undefined : await ownApp(deps, principal, appName, signal);
      const spec = await specOf(deps, name, wanted, { appId: app?.id, principal, signal });
      const made = await addNotification(deps, { spec }, signal);
      return { notification: viewNotification(made, principal, app), secret: spec.secret };
    }),
    handle(notifications.list, async (call) => {
      const { query, signal } = call;
      const principal = principalOf(call);
      const app = query.app === undefined ? undefined : await ownApp(deps, principal, query.app, signal);
      const [found, apps] = await Promise.all([
        resources.list(notificationType, { signal }),
        resources.list(appType, { signal }),
      ]);
      const own = new Map(apps.filter((one) => isOwn(principal, one)).map((one) => [one.id, one]));
      return found
        .filter(({ spec }) => (spec.appId === undefined ? principal.isAdmin : own.has(spec.appId)))
        .filter(({ spec }) => app === undefined || spec.appId === app.id)
        .toSorted((a, b) => (a.spec.name < b.spec.name ? -1 : 1))
        .map((one) => viewNotification(one, principal, own.get(one.spec.appId ?? '')));
    }),
    handle(notifications.test, async (call) => {
      const { signal } = call;
      const principal = principalOf(call);
      const { id, spec } = await ownNotification(deps, principal, call.params.notification, signal);
      const startedMs = now();
      const message = testMessage(spec.name, `msg_${newId()}`, startedMs);
      const answer = await sendMessage(deps, send, { spec, message }, signal);
      const endedMs = now();
      await resources.updateStatus(notificationType, id, ({ status }) => withTest(status, message, answer, endedMs), {
        signal,
      });
      const { status, text } = answer;
      return {
        isAccepted: isAccepted(answer),
        ...(status === undefined ? {} : { status }),
        answer: isShown(principal, spec) || status === undefined ? text : '',
        ms: Math.max(0, endedMs - startedMs),
      };
    }),
    handle(notifications.deliveries, async (call) => {
      const principal = principalOf(call);
      const { status, spec } = await ownNotification(deps, principal, call.params.notification, call.signal);
      const waiting = status.waiting.map(({ id, type, title, at, attempts }): Delivery => {
        const isTried = attempts > 0 && status.failing !== undefined;
        const answer = isTried ? { answer: status.failing?.answer } : {};
        return { id, type, title, at, outcome: 'waiting', attempts, ...answer };
      });
      const all = [...waiting.toReversed(), ...status.log];
      return isShown(principal, spec) ? all : all.map(withoutAnswer);
    }),
    handle(notifications.remove, async (call) => {
      const { signal } = call;
      const { id } = await ownNotification(deps, principalOf(call), call.params.notification, signal);
      await resources.delete(notificationType, id, { signal });
    }),
  ];
}

function isOwn(principal: Principal, { id, spec }: AppResource): boolean {
  return isAtLeast(principal.levelOn({ id, isSystem: spec.isSystem }), 'developer');
}

/** Notifications are developers' business. What somebody may not see is not there for them. */
async function ownApp(deps: Deps, principal: Principal, name: string, signal: AbortSignal): Promise<AppResource> {
  const app = await findApp(deps, name, signal);
  if (isOwn(principal, app)) return app;
  if (!principal.canSee({ id: app.id, isSystem: app.spec.isSystem })) throw noApp(name);
  throw new FlynnError(
    'denied',
    `${principal.name} may only look at ${app.spec.name}: its notifications are for developers`,
  );
}

/** By name or id. */
async function ownNotification(
  { resources }: Deps,
  principal: Principal,
  name: string,
  signal: AbortSignal,
): Promise<NotificationResource> {
  const found = await ifFound(resources.lookup(notificationType, name, { signal }));
  const appId = found?.spec.appId;
  const app = appId === undefined ? undefined : await resources.find(appType, appId, { signal });
  const isTheirs = principal.isAdmin || (app !== undefined && isOwn(principal, app));
  if (found !== undefined && isTheirs) return found;
  throw new FlynnError('not_found', `there is no notification "${name}"; list them with: flynn notification`);
}

/** Without its secrets. */
function viewNotification(
  { id, spec, status, createdAt }: NotificationResource,
  principal: Principal,
  app?: AppResource,
): Notification {
  const said = isShown(principal, spec) ? (answer: string) => answer : statusOf;
  const { name, appId, url, format, on, severity, everyMinutes, isInside } = spec;
  const { failing, lost, waiting } = status;
  return {
    id,
    name,
    ...(appId === undefined ? {} : { app: { id: appId, name: app?.spec.name ?? appId } }),
    url: urlShown(url),
    format,
    on: [...on],
    severity,
    everyMinutes,
    isInside,
    waiting: waiting.length,
    ...(failing === undefined
      ? {}
      : {
          failing: {
            since: failing.since,
            answer: said(failing.answer),
            nextAt: new Date(failing.nextMs).toISOString(),
          },
        }),
    ...(lost === undefined
      ? {}
      : { lost: { ...lost, ...(lost.answer !== undefined && { answer: said(lost.answer) }) } }),
    createdAt,
  };
}

/** What a program inside of the cluster answers is for its admins: who may not lead there is not to read there. */
function isShown({ isAdmin }: Principal, { isInside }: NotificationSpec): boolean {
  return isAdmin || !isInside;
}

/** But for its status. */
function withoutAnswer({ answer, ...delivery }: Delivery): Delivery {
  return answer === undefined ? delivery : { ...delivery, answer: statusOf(answer) };
}
