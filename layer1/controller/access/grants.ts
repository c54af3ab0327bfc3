/** Roles on single apps. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { compareOf } from '@flynn/resource/record';
import { refuseForDatastore } from '../datastores/guards.ts';
import type { Deps } from '../deps.ts';
import { findApp, forLiveApp } from '../deps.ts';
import { ownedBy } from '../resources.ts';
import { grants } from './api.ts';
import type { Grant } from './model.ts';
import { grantId, grantType, teamType, userType } from './resources.ts';
import type { GrantResource } from './resources.ts';
import { findTeam, findUser } from './users.ts';

export function grantHandlers(deps: Deps): Handler[] {
  const { resources } = deps;
  return [
    handle(grants.list, async ({ params, signal }) => {
      const app = await findApp(deps, params.app, signal);
      const [all, users, teams] = await Promise.all([
        resources.list(grantType, { owner: ownedBy(app.id), signal }),
        resources.list(userType, { signal }),
        resources.list(teamType, { signal }),
      ]);
      const names = new Map([...users, ...teams].map(({ id, spec }) => [id, spec.name]));
      const shown = all.flatMap((grant) => {
        const name = names.get(grant.spec.subjectId);
        return name === undefined ? [] : [viewGrant(grant, name)];
      });
      return shown.sort((a, b) => (`${a.kind} ${a.name}` < `${b.kind} ${b.name}` ? -1 : 1));
    }),
    handle(grants.put, async ({ params, body, signal }) => {
      const { kind, subject } = await subjectOf(deps, params, signal);
      return forLiveApp(deps, params.app, signal, async (app) => {
        if (app.spec.isSystem) {
          throw new FlynnError(
            'denied',
            `${app.spec.name} is part of the platform: only a role on the cluster counts there (flynn user role)`,
          );
        }
        refuseForDatastore(
          app,
          `what counts there is the role on an app that has it: flynn resource tells which, and flynn access grant ${body.role} is for that`,
        );
        const id = grantId(app.id, kind, subject.id);
        const spec = { appId: app.id, kind, subjectId: subject.id, role: body.role };
        const also = () => ({ compare: [compareOf(app)] });
        try {
          const made = await resources.create(grantType, { id, owner: ownedBy(app.id), spec }, { signal, also });
          return viewGrant(made, subject.spec.name);
        } catch (error) {
          if (!hasCode(error, 'conflict') || (await resources.find(grantType, id, { signal })) === undefined)
            throw error;
        }
        return viewGrant(await resources.update(grantType, id, () => spec, { signal, also }), subject.spec.name);
      });
    }),
    handle(grants.remove, async ({ params, signal }) => {
      const app = await findApp(deps, params.app, signal);
      const { kind, subject } = await subjectOf(deps, params, signal);
      try {
        await resources.delete(grantType, grantId(app.id, kind, subject.id), { signal });
      } catch (error) {
        if (!hasCode(error, 'not_found')) throw error;
        throw new FlynnError(
          'not_found',
          `the ${kind} ${subject.spec.name} was given nothing on ${app.spec.name}; see: flynn access list -a ${app.spec.name}`,
        );
      }
    }),
  ];
}

type Subject = { kind: 'user' | 'team'; subject: { id: string; spec: { name: string } } };

async function subjectOf(
  deps: Deps,
  { kind, name }: { kind: string; name: string },
  signal: AbortSignal,
): Promise<Subject> {
  if (kind === 'user') return { kind, subject: await findUser(deps, name, signal) };
  if (kind === 'team') return { kind, subject: await findTeam(deps, name, signal) };
  throw new FlynnError('invalid', `access is given to a user or a team, not to a "${kind}"`);
}

function viewGrant({ spec, createdAt }: GrantResource, name: string): Grant {
  return { appId: spec.appId, kind: spec.kind, name, role: spec.role, createdAt };
}
