/** Tokens, and who somebody is. A token is told once, when it is made. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { shortId } from '@flynn/kit/ids';
import { type Piece, mergePieces, removePiece } from '@flynn/resource/piece';
import { compareOf } from '@flynn/resource/record';
import type { z } from 'zod';
import { findApp, noApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { pageOf } from '../paging.ts';
import { appType } from '../resources.ts';
import { self, tokens } from './api.ts';
import type { Identity, Token } from './model.ts';
import { principalOf } from './principal.ts';
import type { Principal } from './principal.ts';
import { teamType, tokenType, userType } from './resources.ts';
import type { TokenResource, UserResource } from './resources.ts';
import { higher, narrowed } from './roles.ts';
import type { Limits } from './roles.ts';
import { tokenIdIn, newTokenText } from './token-text.ts';
import { findUser } from './users.ts';

const defaultLifeMs = 90 * 86_400_000;
/** A link is opened at once, or not at all. */
const linkMs = 10 * 60_000;

export function tokenHandlers(deps: Deps): Handler[] {
  const { resources } = deps;
  return [
    handle(tokens.create, async (call) => {
      const { body, signal } = call;
      const principal = principalOf(call);
      const user = await ownerOf(deps, principal, body.user, signal);
      const limits = await limitsOf(deps, principal, body, signal);
      const until = expiryOf(deps, principal, body);
      const life = body.isLink === true ? linkUntil(deps, until) : { expiresAt: until };
      const made = await makeToken(deps, { name: body.name, user, limits, ...life }, signal);
      return { ...viewToken(made.resource, await namesOf(deps, [made.resource], signal)), token: made.text };
    }),
    handle(tokens.exchange, async (call) => {
      const { body, signal } = call;
      const principal = principalOf(call);
      const link = await linkOf(deps, principal, signal);
      const user = await ownerOf(deps, principal, undefined, signal);
      const { limits } = principal;
      const bound = link === undefined ? principal.token?.expiresAt : link.spec.exchange?.until;
      const expiresAt = earlier(bound, new Date(deps.now() + body.expiresInMs).toISOString());
      const made = await makeToken(deps, { name: body.name, user, limits, expiresAt, instead: link }, signal).catch(
        async (error: unknown) => {
          // It may have been something else that changed: then the link is as good as before, and whoever has it tries again.
          if (hasCode(error, 'conflict')) await linkOf(deps, principal, signal);
          throw error;
        },
      );
      return { ...viewToken(made.resource, await namesOf(deps, [made.resource], signal)), token: made.text };
    }),
    handle(tokens.list, async (call) => {
      const principal = principalOf(call);
      const own = await resources.list(tokenType, {
        signal: call.signal,
        where: ({ id, spec }) => isOwn(principal, { id, userId: spec.userId }),
      });
      return viewsOf(
        deps,
        pageOf(own, call.query, ({ id }) => id),
        call.signal,
      );
    }),
    handle(tokens.revoke, async (call) => {
      const { params, signal } = call;
      const id = tokenIdIn(params.token);
      if (id === undefined) throw new FlynnError('invalid', 'this is no id of a token: "flynn token list" shows them');
      const found = await resources.find(tokenType, id, { signal });
      if (found === undefined || !isOwn(principalOf(call), { id, userId: found.spec.userId })) throw noToken(id);
      try {
        await resources.delete(tokenType, id, { signal });
      } catch (error) {
        if (!hasCode(error, 'not_found')) throw error;
      }
    }),
    handle(self.get, async (call) => identityOf(deps, principalOf(call), call.signal)),
  ];
}

export async function makeToken(
  deps: Deps,
  input: {
    name: string;
    user: UserResource | undefined;
    limits: Limits;
    expiresAt: string | undefined;
    exchange?: TokenResource['spec']['exchange'];
    /** Goes as this one comes: of two who have it only one gets something for it. */
    instead?: TokenResource | undefined;
  },
  signal: AbortSignal,
): Promise<{ text: string; resource: TokenResource }> {
  const { name, user, limits, expiresAt, exchange, instead } = input;
  const id = shortId();
  const { text, hash } = newTokenText(id);
  const spec = {
    name,
    hash,
    role: limits.role,
    ...(user === undefined ? {} : { userId: user.id }),
    ...(limits.appIds === undefined ? {} : { appIds: [...limits.appIds] }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(exchange === undefined ? {} : { exchange }),
  };
  // Not for somebody who is being removed at the same time.
  const present: Piece = user === undefined ? {} : { compare: [compareOf(user)] };
  const piece = instead === undefined ? present : mergePieces([present, removePiece(tokenType, instead)]);
  return { text, resource: await deps.resources.create(tokenType, { id, spec }, { signal, also: () => piece }) };
}

/** The token that was shown, where it is one that is used up. */
async function linkOf(deps: Deps, { token }: Principal, signal: AbortSignal): Promise<TokenResource | undefined> {
  if (token?.isLink !== true) return undefined;
  const link = await deps.resources.find(tokenType, token.id, { signal });
  if (link === undefined) throw usedUp();
  return link;
}

function usedUp(): FlynnError {
  return new FlynnError('unauthenticated', 'this link was used already: make another');
}

function linkUntil({ now }: Pick<Deps, 'now'>, until: string | undefined) {
  const expiresAt = earlier(until, new Date(now() + linkMs).toISOString());
  return { expiresAt, exchange: until === undefined ? {} : { until } };
}

function earlier(bound: string | undefined, wanted: string): string {
  return bound !== undefined && Date.parse(bound) < Date.parse(wanted) ? bound : wanted;
}

/** The root key is nobody, and a service has none of its own to make tokens for: who has a user's name is another. */
async function ownerOf(
  deps: Deps,
  principal: Principal,
  name: string | undefined,
  signal: AbortSignal,
): Promise<UserResource | undefined> {
  const isOneself = principal.userId !== undefined && name === principal.name;
  if (name !== undefined && !isOneself) {
    if (!principal.isAdmin) throw new FlynnError('denied', 'only an admin of the cluster makes tokens for others');
    return findUser(deps, name, signal);
  }
  return principal.userId === undefined ? undefined : deps.resources.get(userType, principal.userId, { signal });
}

async function limitsOf(
  deps: Deps,
  principal: Principal,
  body: z.output<typeof tokens.create.body>,
  signal: AbortSignal,
): Promise<Limits> {
  const found =
    body.apps === undefined ? undefined : await Promise.all(body.apps.map((app) => findApp(deps, app, signal)));
  for (const [index, app] of (found ?? []).entries()) {
    if (!principal.canSee({ id: app.id, isSystem: app.spec.isSystem })) {
      throw noApp(body.apps?.[index] ?? '');
    }
  }
  const appIds = found === undefined ? principal.limits.appIds : found.map(({ id }) => id);
  const limits = narrowed(principal.limits, { role: body.role ?? principal.limits.role, appIds });
  if (limits !== undefined) return limits;
  throw new FlynnError('denied', `this token's own scope is less: it is good for ${principal.limits.role} only`);
}

/**
 * Never later than the token it is made with, else who found one for a moment would have made it one for ever. Throws `denied`
 * where more was asked for: whoever puts it where nobody looks, as into a build server, is not to find out when it ends. A link is
 * for as long as can be had.
 */
function expiryOf(
  deps: Deps,
  { token, name }: Principal,
  { expiresInMs: lifeMs, isLink = false }: { expiresInMs?: number | null | undefined; isLink?: boolean | undefined },
): string | undefined {
  const own = token?.expiresAt;
  const wanted = lifeMs === null ? undefined : new Date(deps.now() + (lifeMs ?? defaultLifeMs)).toISOString();
  const isLess = own !== undefined && (wanted === undefined || Date.parse(own) < Date.parse(wanted));
  if (!isLess) return wanted;
  if (lifeMs === undefined || isLink) return own;
  throw new FlynnError(
    'denied',
    `a token is good for no longer than the one it is made with, and this one of ${name} ends at ${own}: ask for less. ` +
      'Who has a key that lasts longer, as the root key, makes one that does: for a build server an admin adds a user with it, flynn user add ci',
    { detail: { expiresAt: own } },
  );
}

/** An admin sees all. A token whose scope is less than its owner sees itself, so that it can be given back. */
function isOwn(principal: Principal, token: { id: string; userId: string | undefined }): boolean {
  if (principal.isAdmin) return true;
  if (!principal.isWhole) return principal.token?.id === token.id;
  return principal.ownUserId !== undefined && principal.ownUserId === token.userId;
}

function noToken(id: string): FlynnError {
  return new FlynnError('not_found', `there is no token ${id}; list them with: flynn token list`);
}

async function viewsOf(deps: Deps, found: readonly TokenResource[], signal: AbortSignal): Promise<Token[]> {
  const names = await namesOf(deps, found, signal);
  return found.map((token) => viewToken(token, names));
}

/** Of the users and apps the tokens speak of, by id. */
async function namesOf(
  { resources }: Deps,
  found: readonly TokenResource[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const [users, apps] = await Promise.all([
    found.some(({ spec }) => spec.userId !== undefined) ? resources.list(userType, { signal }) : [],
    found.some(({ spec }) => spec.appIds !== undefined) ? resources.list(appType, { signal }) : [],
  ]);
  return new Map([...users, ...apps].map(({ id, spec }) => [id, spec.name]));
}

function viewToken({ id, spec, createdAt }: TokenResource, names: ReadonlyMap<string, string>): Token {
  const { name, role, userId, appIds, expiresAt, exchange } = spec;
  return {
    id,
    name,
    ...(userId === undefined ? {} : { user: names.get(userId) ?? userId }),
    role,
    ...(appIds === undefined ? {} : { apps: appIds.map((appId) => names.get(appId) ?? appId) }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(exchange === undefined ? {} : { isLink: true }),
    createdAt,
  };
}

async function identityOf(deps: Deps, principal: Principal, signal: AbortSignal): Promise<Identity> {
  const { resources } = deps;
  const { userId, kind, name, token } = principal;
  const [teams, apps] = await Promise.all([
    userId === undefined
      ? []
      : resources.list(teamType, { signal, where: ({ spec }) => spec.memberIds.includes(userId) }),
    resources.list(appType, { signal }),
  ]);
  const own = apps.flatMap((app) => {
    const level = principal.levelOn({ id: app.id, isSystem: app.spec.isSystem });
    const isMore = level !== 'none' && higher(level, principal.clusterLevel) !== principal.clusterLevel;
    return isMore ? [{ name: app.spec.name, role: level }] : [];
  });
  return {
    kind,
    name,
    role: principal.clusterLevel,
    teams: teams.map(({ spec }) => spec.name).sort(),
    apps: own.sort((a, b) => (a.name < b.name ? -1 : 1)),
    ...(token === undefined
      ? {}
      : { token: { id: token.id, ...(token.expiresAt === undefined ? {} : { expiresAt: token.expiresAt }) } }),
  };
}
