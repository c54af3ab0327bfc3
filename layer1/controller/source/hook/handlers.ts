/** Hooks as people make, rotate and remove them. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { compareOf } from '@flynn/resource/record';
import { isShownFor } from '../../certificates/shown.ts';
import type { Shown } from '../../certificates/shown.ts';
import { findApp, forLiveApp } from '../../deps.ts';
import type { Deps } from '../../deps.ts';
import { iso } from '../../jobs/views.ts';
import { newSigningSecret } from '../../notifications/signature.ts';
import type { AppResource } from '../../resources.ts';
import { httpUrlOf } from '../../routes/url.ts';
import { findSource } from '../followed.ts';
import type { SourceResource } from '../resource.ts';
import { hooks } from './api.ts';
import type { Hook } from './model.ts';
import { hookReceiver } from './receiver.ts';
import { hookType, isHookOf } from './resource.ts';
import type { HookResource } from './resource.ts';

export function hookHandlers(
  deps: Deps,
  certificates: () => Iterable<Shown>,
  known: (id: string) => HookResource | undefined,
): Handler[] {
  const { resources } = deps;
  return [
    handle(hooks.make, async ({ params, body, signal }) => {
      const { isRotation, secret = newSigningSecret() } = body;
      const made = await forLiveApp(deps, params.app, signal, async (app) => {
        const source = await findSource(deps, app, signal);
        const wanted = { app, source, secret };
        return isRotation ? rotate(deps, wanted, signal) : create(deps, wanted, signal);
      });
      return { hook: viewHook(deps, certificates, made), secret };
    }),
    handle(hooks.remove, async ({ params, signal }) => {
      const app = await findApp(deps, params.app, signal);
      try {
        await resources.delete(hookType, app.id, { signal });
      } catch (error) {
        throw hasCode(error, 'not_found') ? noHook(app) : error;
      }
    }),
    hookReceiver(deps, known),
  ];
}

type Wanted = { app: AppResource; source: SourceResource; secret: string };

/** A source that is removed at the same time keeps none: it is the owner, and has to be there. */
async function create(deps: Deps, { app, source, secret }: Wanted, signal: AbortSignal): Promise<HookResource> {
  const { resources } = deps;
  const { name } = app.spec;
  const there = await resources.find(hookType, app.id, { signal });
  if (there !== undefined && !isHookOf(there, source)) {
    await resources.delete(hookType, app.id, { signal, expectUid: there.uid });
  } else if (there !== undefined) {
    throw new FlynnError(
      'conflict',
      `${name} has a hook already, and its secret was told when it was made: flynn source hook --rotate -a ${name} makes another`,
    );
  }
  const owner = { type: 'source', id: app.id };
  const spec = { appId: app.id, secret };
  return resources.create(
    hookType,
    { id: app.id, owner, spec },
    { signal, also: () => ({ compare: [compareOf(app)] }) },
  );
}

async function rotate(deps: Deps, { app, source, secret }: Wanted, signal: AbortSignal): Promise<HookResource> {
  const next = (hook: HookResource) => {
    if (!isHookOf(hook, source)) throw noHook(app);
    return { spec: { ...hook.spec, secret }, status: {} };
  };
  try {
    return await deps.resources.change(hookType, app.id, next, { signal });
  } catch (error) {
    throw hasCode(error, 'not_found') ? noHook(app) : error;
  }
}

function noHook({ spec: { name } }: AppResource): FlynnError {
  return new FlynnError('not_found', `${name} has no hook: flynn source hook -a ${name} makes one`);
}

/** Without its secret. */
export function viewHook(
  { settings, now }: Pick<Deps, 'settings' | 'now'>,
  certificates: () => Iterable<Shown>,
  { id, status: { last, refused } }: HookResource,
): Hook {
  const domain = `controller.${settings.domain}`;
  const isSecure = isShownFor(domain, certificates(), now());
  const port = isSecure ? { httpsPort: settings.httpsPort } : {};
  return {
    url: httpUrlOf({ domain, path: `/hooks/${id}`, ...port }, settings),
    ...(last === undefined ? {} : { last: { at: iso(last.atMs), outcome: last.outcome, what: last.what } }),
    ...(refused === undefined ? {} : { refused: { at: iso(refused.atMs), why: refused.why, from: refused.from } }),
  };
}
