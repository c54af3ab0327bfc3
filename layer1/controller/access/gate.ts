/** The one gate of the API: who is it, is it not too often, and may they? Whatever no rule allows is refused. */
import { routedAddress } from '@flynn/kit/client-address';
import { FlynnError } from '@flynn/kit/errors';
import { type Gate, type GateRequest, credentialOf, unknownKey } from '@flynn/kit/http-gate';
import { appRole } from '@flynn/kit/identity';
import { isForMonitoring, metricsToken } from '@flynn/kit/metrics-token';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { isSameSecret } from '@flynn/kit/secrets';
import { findApp, noApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { keyIdOf } from '../keys/keys.ts';
import { getOperation } from '../operations/records.ts';
import { deploymentType, keyType } from '../resources.ts';
import type { AuditTrail } from '../audit/trail.ts';
import type { AppResource } from '../resources.ts';
import { actForHeader } from './act-for.ts';
import { tokens } from './api.ts';
import type { Directory } from './directory.ts';
import { pushDays, pushesUntil } from './last-login.ts';
import { type RunnerDeps, checkOwnRunner, ownRunner } from './own-runners.ts';
import { Principal, rootPrincipal, servicePrincipal } from './principal.ts';
import type { RateLimit } from './rate-limit.ts';
import { userType } from './resources.ts';
import type { UserResource } from './resources.ts';
import { isAtLeast, noLimits } from './roles.ts';
import type { Role } from './roles.ts';
import { ruleOf } from './rules.ts';
import { type Service, mayCall, mayCallWithKey, serviceOf } from './service-token.ts';

type GateDeps = Pick<Deps, 'resources' | 'store' | 'settings' | 'now'> & RunnerDeps;

export type GateOptions = Readonly<{
  deps: GateDeps;
  directory: Directory;
  /** Each opens everything: two while the root key is made anew. */
  rootKeys: readonly string[];
  /** What the platform's parts had before they had tokens and certificates: opens what any of them needs. */
  clusterKey: string;
  /** Of the tokens of the platform's parts: two while they are made anew. */
  tokenRounds: readonly number[];
  rateLimit: RateLimit;
  /** Hears whom the gate turned away. */
  trail: Pick<AuditTrail, 'refused'>;
}>;

export function accessGate(options: GateOptions): Gate {
  const { directory, rateLimit } = options;
  const root = rootPrincipal();
  return async (request) => {
    const text = credentialOf(request.headers);
    if (isForMonitoring(request.route.path) && isSameSecret(text, metricsToken(options.clusterKey))) {
      return { caller: servicePrincipal('platform') };
    }
    const principal = isRootKey(text, options.rootKeys) ? root : await whoHas(options, text, request);
    rateLimit.take(principal);
    if (principal.token?.isLink === true && request.route !== tokens.exchange) throw onlyALink();
    if (principal.kind === 'service') {
      if (principal.service === undefined || !mayCall(principal.service, request.route))
        throw notItsBusiness(principal);
      if (principal.runnerId !== undefined) return asOwnRunner(principal, principal.runnerId, request);
      const fingerprint = request.headers[actForHeader];
      if (principal.service !== 'git-receiver' || request.route.path.startsWith('/keys')) return { caller: principal };
      if (typeof fingerprint !== 'string') {
        if (request.route.method === 'GET') return { caller: principal };
        throw new FlynnError('denied', 'the git receiver acts for people only: it has to name their key');
      }
      return authorize(await ownerOf(options, fingerprint, request.signal), request);
    }
    return authorize(principal, request);
  };

  async function asOwnRunner(
    caller: Principal,
    runnerId: string,
    request: GateRequest,
  ): Promise<{ caller: Principal; params?: Record<string, string> }> {
    const app = request.params['runner'] === undefined ? await appOf(options, request) : undefined;
    await checkOwnRunner(options.deps, runnerId, request, app?.id);
    return { caller, ...(app === undefined ? {} : paramsWith(request.params, app)) };
  }

  async function authorize(
    first: Principal,
    request: GateRequest,
  ): Promise<{ caller: Principal; params?: Record<string, string> }> {
    const { route, signal } = request;
    const rule = ruleOf(route.access);
    if (first.isAdmin || rule.of === 'anybody') return { caller: first };
    const app = rule.of === 'app' ? await appOf(options, request) : undefined;
    const params = app === undefined ? {} : paramsWith(request.params, app);
    const isAllowed = (principal: Principal): boolean => {
      if (rule.of === 'cluster') return isAtLeast(principal.clusterLevel, rule.role);
      if (rule.of === 'some app') return isAtLeast(principal.highestLevel, rule.role);
      return app !== undefined && isAtLeast(principal.levelOn(viewOf(app)), rule.role);
    };
    if (isAllowed(first)) return { caller: first, ...params };
    const principal = await directory.again(first, app, signal);
    if (principal === undefined) throw unknownKey();
    if (isAllowed(principal)) return { caller: principal, ...params };
    const error =
      app !== undefined && !principal.canSee(viewOf(app)) ? hidden(request) : refusal(principal, rule.role, app);
    options.trail.refused(principal, route, request, error);
    throw error;
  }
}

async function whoHas(options: GateOptions, text: string, request: GateRequest): Promise<Principal> {
  const { peer, route, signal } = request;
  if (isSameSecret(text, options.clusterKey)) {
    // What a router passes on is from people, whom this key alone is to open nothing; nor is it to open to a part what others need.
    if (peer !== undefined && !mayCallWithKey(peer, route)) throw unknownKey();
    return servicePrincipal('platform');
  }
  const service = serviceOf(text, options.rootKeys, options.tokenRounds);
  if (service !== undefined) {
    if (!mayShowTokenOf(service, request)) throw unknownKey();
    return servicePrincipal(service);
  }
  const runner = await ownRunner(options.deps, text, signal);
  if (runner !== undefined) return runner;
  const known = await options.directory.authenticate(text, signal);
  if (known === undefined) throw isToken(text) ? unknownKey() : noRootKey();
  return known;
}

/** Parts ask here themselves, each with its own token: by way of a router, or by another part, it was taken from them. */
function mayShowTokenOf(service: Service, { peer, headers }: GateRequest): boolean {
  return routedAddress(headers) === undefined && (peer === undefined || peer === appRole(service));
}

function isRootKey(text: string, rootKeys: readonly string[]): boolean {
  return rootKeys.filter((key) => isSameSecret(text, key)).length > 0;
}

/** As they are all written, people's and those of the platform's parts. */
function isToken(text: string): boolean {
  return text.startsWith('flynn_');
}

/** What else is sent as a key was one, if not this cluster's: who kept it has to know where the new one is. */
function noRootKey(): FlynnError {
  return new FlynnError(
    'unauthenticated',
    `the key that was sent is not the root key of this cluster, or not any more: whoever made it anew has the new one, and ${eitherCommand('up')} on a host gives it to the flynn command there`,
  );
}

/** Keys of before there were users are the cluster's own. */
async function ownerOf({ deps, directory }: GateOptions, fingerprint: string, signal: AbortSignal): Promise<Principal> {
  const key = await deps.resources.find(keyType, keyIdOf(fingerprint), { signal });
  if (key === undefined) throw new FlynnError('denied', `the SSH key ${fingerprint} may push no more`);
  const { userId } = key.spec;
  if (userId === undefined) return rootPrincipal(fingerprint);
  const owner = await directory.userPrincipal(userId, { limits: noLimits, sshKey: fingerprint }, { signal });
  if (owner === undefined) throw new FlynnError('denied', `the SSH key ${fingerprint} is nobody's any more`);
  await checkLastLogin(deps, directory.users.snapshot.entries.get(userId)?.value, { id: userId, signal });
  return owner;
}

/** In memory may be what was so before a login a moment ago, through another controller. */
async function checkLastLogin(
  { resources, settings, now }: GateDeps,
  known: UserResource | undefined,
  { id, signal }: { id: string; signal: AbortSignal },
): Promise<void> {
  const isOver = (user: UserResource) => now() > (pushesUntil(user, settings.oidc) ?? Infinity);
  if (known !== undefined && !isOver(known)) return;
  const user = await resources.find(userType, id, { signal });
  if (user === undefined || !isOver(user)) return;
  throw new FlynnError(
    'denied',
    `${user.spec.name} logged in last at ${user.status.lastLoginAt}, and SSH keys push for ${pushDays} days after that: run "flynn login", then push again`,
  );
}

/** The app a path names: `:app`, or that of the deployment or operation. */
async function appOf(
  { deps, directory }: GateOptions,
  { params, signal }: GateRequest,
): Promise<AppResource | undefined> {
  const nameOrId = params['app'] ?? (await ownerIdOf(deps, params, signal));
  if (nameOrId === undefined) return undefined;
  // An id is one app's for ever, and the platform's it is or is not for ever: memory says so as well as the store.
  return directory.apps.snapshot.entries.get(nameOrId)?.value ?? findApp(deps, nameOrId, signal);
}

async function ownerIdOf(
  { resources, store }: GateDeps,
  params: GateRequest['params'],
  signal: AbortSignal,
): Promise<string | undefined> {
  if (params['deployment'] !== undefined) {
    return (await resources.get(deploymentType, params['deployment'], { signal })).spec.appId;
  }
  if (params['operation'] === undefined) return undefined;
  return (await getOperation(store, params['operation'], { signal })).spec.appId;
}

/** By its id from here on: what was judged is what is acted on, whatever has the name a moment later. */
function paramsWith(params: GateRequest['params'], app: AppResource): { params?: Record<string, string> } {
  return params['app'] === undefined ? {} : { params: { ...params, app: app.id } };
}

function viewOf({ id, spec }: AppResource): { id: string; isSystem: boolean } {
  return { id, isSystem: spec.isSystem };
}

/** Said in the same words as of what there is not: who may not know of it learns nothing. */
function hidden({ params }: GateRequest): FlynnError {
  const { app, deployment, operation } = params;
  if (app !== undefined) return noApp(app);
  const [type, id] = deployment === undefined ? ['operation', operation] : ['deployment', deployment];
  return new FlynnError('not_found', `there is no ${type} "${id ?? ''}"`, { detail: { type, id } });
}

function refusal(principal: Principal, needed: Role, app: AppResource | undefined): FlynnError {
  const where = app === undefined ? 'the cluster' : app.spec.name;
  const level = app === undefined ? principal.clusterLevel : principal.levelOn(viewOf(app));
  const has = level === 'none' ? `has no role on ${where}` : `is ${level} on ${where}`;
  const remedy =
    principal.token !== undefined && !isAtLeast(principal.limits.role, needed)
      ? `the token's scope is ${principal.limits.role}: use one with more`
      : app === undefined || app.spec.isSystem || (app.spec.datastore !== undefined && needed === 'admin')
        ? 'an admin of the cluster can do it, or change your role'
        : app.spec.datastore !== undefined
          ? `what counts is the role on an app that has it: flynn resource tells which`
          : `an admin can change that: flynn access grant NAME ${needed} -a ${app.spec.name}`;
  return new FlynnError('denied', `this needs the role ${needed}, and ${principal.name} ${has}; ${remedy}`, {
    detail: { needed, level },
  });
}

function onlyALink(): FlynnError {
  return new FlynnError('denied', 'this is a link to log in with, once: it opens nothing else');
}

function notItsBusiness({ name }: Principal): FlynnError {
  return new FlynnError('denied', `this is not for the platform's own ${name} to do`);
}
