/** People, teams, grants and tokens as this process knows them: all in memory, kept current by watches. */
import { FlynnError } from '@flynn/kit/errors';
import { FreshWork } from '@flynn/kit/fresh-work';
import { withDeadline } from '@flynn/kit/retry';
import { resourceKey, resourcePrefix } from '@flynn/resource/keys';
import { decodeResource } from '@flynn/resource/record';
import type { ResourceService } from '@flynn/resource/service';
import type { Mirror } from '@flynn/store/mirror';
import type { Store } from '@flynn/store/store';
import type { Asker } from '../operations/asker.ts';
import { appType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { resourceType } from '../providers/types.ts';
import type { ProvidedResource } from '../providers/types.ts';
import { Principal, everything, rootPrincipal } from './principal.ts';
import type { HavingOf, PrincipalFacts } from './principal.ts';
import type { RateLimit } from './rate-limit.ts';
import { grantType, teamType, tokenType, userType } from './resources.ts';
import type { GrantResource, TeamResource, TokenResource, UserResource } from './resources.ts';
import { higher, isAtLeast, isReduced, levelOnDatastore, noLimits } from './roles.ts';
import type { AppToJudge, Level, Limits, Standing } from './roles.ts';
import { hasHash, parseToken } from './token-text.ts';

/** A token is good for at most this long after it was taken back, even if this process hears of nothing. */
const trustMs = 10_000;
const sweepMs = 1_000;
const newestMs = 10_000;
/** Who has less from now on is told to come again after. */
const askAgainMs = 1_000;

type Presence = {
  leave: AbortController;
  userId: string | undefined;
  standing: Standing;
  limits: Limits;
  expiresAt: string | undefined;
};
type PresentToken = NonNullable<PrincipalFacts['token']>;
/** Counts those who come with tokens that are not known. */
type Strangers = Pick<RateLimit, 'takeFor'>;
type Records = Readonly<{ teams: TeamResource[]; grants: GrantResource[] }>;

/**
 * INVARIANTS. Whoever is let in was, at most `trustMs` ago, asked for at the store. What is refused on what is in memory
 * was looked up once more: a grant given through another process counts at once. Who comes with a token for the first time
 * sees all that was given them until then. What somebody who is here may is known by memory alone, and changes with it: nothing
 * is kept of them that was read beside it, and may be older or newer.
 */
export class Directory implements AsyncDisposable {
  readonly users: Mirror<UserResource>;
  readonly teams: Mirror<TeamResource>;
  readonly grants: Mirror<GrantResource>;
  readonly tokens: Mirror<TokenResource>;
  readonly apps: Mirror<AppResource>;
  /** What apps have of providers: some of it are datastores, which are apps themselves. */
  readonly provided: Mirror<ProvidedResource>;
  readonly #store: Store;
  readonly #now: () => number;
  /** When each token was last seen in the store. */
  readonly #checkedAt = new Map<string, number>();
  /** By user id, as long as nothing changes. */
  readonly #standings = new Map<string, Standing>();
  /** Of those who are here, by their token: aborts when they lose something, or it expires. */
  readonly #presences = new Map<string, Presence>();
  readonly #sweep: NodeJS.Timeout;
  readonly #newest = new FreshWork(() => this.#readNewest());
  readonly #strangers: Strangers | undefined;

  private constructor(options: {
    store: Store;
    now: () => number;
    strangers: Strangers | undefined;
    mirrors: Pick<Directory, 'users' | 'teams' | 'grants' | 'tokens' | 'apps' | 'provided'>;
  }) {
    this.#store = options.store;
    this.#now = options.now;
    this.#strangers = options.strangers;
    ({
      users: this.users,
      teams: this.teams,
      grants: this.grants,
      tokens: this.tokens,
      apps: this.apps,
      provided: this.provided,
    } = options.mirrors);
    this.tokens.onChange(({ key, after }) => this.#forget(key, after === undefined ? noLongerGood() : hasLess()));
    for (const mirror of [this.users, this.teams, this.grants]) mirror.onChange(() => this.#reconsider());
    this.provided.onChange(({ before, after }) => this.#reconsiderDatastore(before, after));
    this.#sweep = setInterval(() => this.#endExpired(), sweepMs).unref();
  }

  static async open(options: {
    store: Store;
    resources: ResourceService;
    now: () => number;
    /** Without one nobody is counted. */
    strangers?: Strangers;
    signal?: AbortSignal;
  }): Promise<Directory> {
    const { store, resources, now, strangers } = options;
    const limits = options.signal === undefined ? {} : { signal: options.signal };
    const [users, teams, grants, tokens, apps, provided] = await Promise.all([
      resources.mirror(userType, limits),
      resources.mirror(teamType, limits),
      resources.mirror(grantType, limits),
      resources.mirror(tokenType, limits),
      resources.mirror(appType, limits),
      resources.mirror(resourceType, limits),
    ]);
    return new Directory({ store, now, strangers, mirrors: { users, teams, grants, tokens, apps, provided } });
  }

  readonly havingOf: HavingOf = (appId) => {
    const datastore = this.apps.snapshot.entries.get(appId)?.value.spec.datastore;
    if (datastore === undefined) return undefined;
    return this.#judged(this.provided.snapshot.entries.get(datastore.resourceId)?.value);
  };

  /** The apps that have it: of one not heard of yet the least is assumed. */
  #judged(resource: ProvidedResource | undefined): AppToJudge[] {
    const known = this.apps.snapshot.entries;
    return (resource?.spec.apps ?? []).map(({ appId: id }) => ({
      id,
      isSystem: known.get(id)?.value.spec.isSystem ?? true,
    }));
  }

  /** Whose token it is; undefined for one that is not, or no longer, good. `exhausted` where too many are not known here. */
  async authenticate(text: string, signal: AbortSignal): Promise<Principal | undefined> {
    const parsed = parseToken(text);
    if (parsed === undefined) return undefined;
    const { id, secret } = parsed;
    // The store is asked: it may have been made a moment ago. By the time that whoever has it comes again it is known here.
    const isKnown = this.tokens.snapshot.entries.has(id);
    if (!isKnown) this.#strangers?.takeFor('nobody', 'whoever has tokens that nobody knows');
    const token = await this.#currentToken(id, signal);
    if (token === undefined || !hasHash(secret, token.spec.hash)) return undefined;
    if (this.#isOver(token.spec)) {
      throw new FlynnError(
        'unauthenticated',
        `the token ${id} expired at ${token.spec.expiresAt}: who has another key makes a new one with "flynn token create"`,
      );
    }
    return this.#principalOf(token, signal);
  }

  #isOver({ expiresAt }: Pick<TokenResource['spec'], 'expiresAt'>): boolean {
    return expiresAt !== undefined && Date.parse(expiresAt) <= this.#now();
  }

  async #principalOf({ id, spec }: TokenResource, signal: AbortSignal): Promise<Principal | undefined> {
    const { userId, expiresAt, role, appIds, exchange } = spec;
    const limits = { role, appIds };
    const token = { id, expiresAt, isLink: exchange !== undefined };
    const facts = { limits, token, havingOf: this.havingOf };
    if (userId === undefined) {
      const signal = this.#presence(facts, undefined, everything);
      if (signal === undefined) return undefined;
      return new Principal({ ...facts, kind: 'root', name: `token ${id}`, standing: everything, signal });
    }
    return this.userPrincipal(userId, facts, { signal });
  }

  /** Who asked once, by what they may now. Undefined if they may nothing any more. */
  async whoAsked({ userId, tokenId }: Asker, signal: AbortSignal): Promise<Principal | undefined> {
    if (tokenId !== undefined) {
      const token = await this.#currentToken(tokenId, signal);
      return token === undefined || this.#isOver(token.spec) ? undefined : this.#principalOf(token, signal);
    }
    return userId === undefined
      ? rootPrincipal()
      : this.userPrincipal(userId, { limits: noLimits }, { isFresh: true, signal });
  }

  /** Undefined when there is no such user. With `isFresh` out of the store instead of memory. */
  async userPrincipal(
    userId: string,
    facts: Pick<PrincipalFacts, 'limits' | 'token' | 'sshKey'>,
    options: { isFresh?: boolean; signal: AbortSignal },
  ): Promise<Principal | undefined> {
    const { isFresh = false, signal } = options;
    const { token, limits } = facts;
    if (isFresh && token !== undefined) await this.#catchUpWithUser(userId, signal);
    const isRead = isFresh && token === undefined;
    let user = isRead ? undefined : this.users.snapshot.entries.get(userId)?.value;
    if (user === undefined) {
      const entry = await this.#store.get(resourceKey(userType.name, userId), { signal });
      if (entry === undefined) return undefined;
      user = decodeResource(userType, entry);
    }
    const { havingOf } = this;
    const own = { ...facts, kind: 'user', name: user.spec.name, userId, havingOf } as const;
    if (isRead) return new Principal({ ...own, standing: standingOf(user, await this.#readAll(signal)) });
    const standing = this.#standingOf(user);
    if (token === undefined) return new Principal({ ...own, standing });
    const present = this.#presence({ token, limits }, userId, standing);
    return present === undefined ? undefined : new Principal({ ...own, standing, signal: present });
  }

  /** The same caller by what the store says now, on that app: asked before anybody is turned away. */
  async again(principal: Principal, app: AppResource | undefined, signal: AbortSignal): Promise<Principal | undefined> {
    if (app?.spec.datastore !== undefined) await this.#catchUpWithDatastore(app, app.spec.datastore.resourceId, signal);
    if (principal.userId === undefined) return principal;
    const { limits, token, sshKey } = principal;
    const facts = { limits, ...(token === undefined ? {} : { token }), ...(sshKey === undefined ? {} : { sshKey }) };
    return this.userPrincipal(principal.userId, facts, { isFresh: true, signal });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#sweep);
    const mirrors = [this.users, this.teams, this.grants, this.tokens, this.apps, this.provided];
    await Promise.all(mirrors.map((mirror) => mirror[Symbol.asyncDispose]()));
  }

  async #currentToken(id: string, signal: AbortSignal): Promise<TokenResource | undefined> {
    const known = this.tokens.snapshot.entries.get(id)?.value;
    const nowMs = this.#now();
    if (known !== undefined && nowMs - (this.#checkedAt.get(id) ?? -Infinity) < trustMs) return known;
    const entry = await this.#store.get(resourceKey(tokenType.name, id), { signal });
    if (entry === undefined) return undefined;
    const token = decodeResource(tokenType, entry);
    // One that goes from here on is heard of: it is forgotten then.
    await this.tokens.reached(entry.modRevision, { signal });
    const { userId } = token.spec;
    if (userId !== undefined) {
      const user = await this.#store.get(resourceKey(userType.name, userId), { signal });
      if (user === undefined) return undefined;
      await this.users.reached(user.modRevision, { signal });
      if (!this.#checkedAt.has(id)) await this.#catchUp(signal);
    }
    this.#checkedAt.set(id, nowMs);
    return token;
  }

  /** Teams and grants as they are in the store, where they have not gone: who logs in was put into teams a moment ago. */
  async #catchUp(signal: AbortSignal): Promise<void> {
    const { teams, grants } = await this.#newest.run(signal);
    await Promise.all([this.teams.reached(teams, { signal }), this.grants.reached(grants, { signal })]);
  }

  /** When a team, and a grant, was changed last: once for all who are refused at one time, for whoever asks again and again is. */
  async #readNewest(): Promise<{ teams: number; grants: number }> {
    const options = { isKeysOnly: true, signal: withDeadline(newestMs) };
    const [teams = 0, grants = 0] = await Promise.all(
      [teamType, grantType].map(async ({ name }) => {
        const { entries } = await this.#store.list(resourcePrefix(name), options);
        return entries.reduce((newest, { modRevision }) => Math.max(newest, modRevision), 0);
      }),
    );
    return { teams, grants };
  }

  async #catchUpWithUser(userId: string, signal: AbortSignal): Promise<void> {
    const entry = await this.#store.get(resourceKey(userType.name, userId), { signal });
    await Promise.all([this.users.reached(entry?.modRevision ?? 0, { signal }), this.#catchUp(signal)]);
  }

  async #catchUpWithDatastore(app: AppResource, resourceId: string, signal: AbortSignal): Promise<void> {
    const entry = await this.#store.get(resourceKey(resourceType.name, resourceId), { signal });
    await Promise.all([
      this.apps.reached(app.revision, { signal }),
      this.provided.reached(entry?.modRevision ?? 0, { signal }),
    ]);
  }

  #standingOf(user: UserResource): Standing {
    const known = this.#standings.get(user.id);
    if (known !== undefined) return known;
    const standing = standingOf(user, { teams: valuesOf(this.teams), grants: valuesOf(this.grants) });
    this.#standings.set(user.id, standing);
    return standing;
  }

  async #readAll(signal: AbortSignal): Promise<Records> {
    const [teams, grants] = await Promise.all(
      [teamType, grantType].map(({ name }) => this.#store.list(resourcePrefix(name), { signal })),
    );
    return {
      teams: (teams?.entries ?? []).map((entry) => decodeResource(teamType, entry)),
      grants: (grants?.entries ?? []).map((entry) => decodeResource(grantType, entry)),
    };
  }

  /** Undefined of a token that went meanwhile. */
  #presence(
    { token: { id, expiresAt }, limits }: { token: PresentToken; limits: Limits },
    userId: string | undefined,
    standing: Standing,
  ): AbortSignal | undefined {
    if (!this.tokens.snapshot.entries.has(id)) return undefined;
    const present = this.#presences.get(id) ?? { leave: new AbortController(), userId, standing, limits, expiresAt };
    present.standing = standing;
    this.#presences.set(id, present);
    return present.leave.signal;
  }

  #forget(tokenId: string, why: FlynnError): void {
    this.#checkedAt.delete(tokenId);
    const present = this.#presences.get(tokenId);
    this.#presences.delete(tokenId);
    present?.leave.abort(why);
  }

  #endExpired(): void {
    for (const [tokenId, present] of this.#presences) if (this.#isOver(present)) this.#forget(tokenId, noLongerGood());
  }

  /** Who has less than before is asked to come again; who has more does not notice. */
  #reconsider(): void {
    this.#standings.clear();
    for (const [tokenId, present] of this.#presences) {
      if (present.userId === undefined) continue;
      const user = this.users.snapshot.entries.get(present.userId)?.value;
      if (user === undefined) {
        this.#forget(tokenId, noLongerGood());
        continue;
      }
      const standing = this.#standingOf(user);
      if (isReduced(present.standing, standing)) this.#forget(tokenId, hasLess());
      else present.standing = standing;
    }
  }

  /** The same of who was let in to a datastore by an app that has it no more. */
  #reconsiderDatastore(before: ProvidedResource | undefined, after: ProvidedResource | undefined): void {
    const id = before?.status.externalId;
    const app = id === undefined ? undefined : this.apps.snapshot.entries.get(id)?.value;
    if (app === undefined || app.spec.datastore?.resourceId !== before?.id) return;
    const one = { id: app.id, isSystem: app.spec.isSystem };
    const [had, has] = [this.#judged(before), this.#judged(after)];
    for (const [tokenId, { standing, limits }] of this.#presences) {
      const level = levelOnDatastore(one, had, standing, limits);
      if (!isAtLeast(levelOnDatastore(one, has, standing, limits), level)) this.#forget(tokenId, hasLess());
    }
  }
}

/** Of the token, or of who has it. */
function noLongerGood(): FlynnError {
  return new FlynnError('unauthenticated', 'this token is not, or no longer, a good one: log in again');
}

/** They are known still: by what is left to them the same may be answered, or refused with what it needs. */
function hasLess(): FlynnError {
  return new FlynnError(
    'denied',
    'the login is good, but while this was answered a role or the scope of its token was reduced: ask again with what is left of it',
    { detail: { retryAfterMs: askAgainMs } },
  );
}

function valuesOf<T>(mirror: Mirror<T>): T[] {
  return [...mirror.snapshot.entries.values()].map(({ value }) => value);
}

/** Of the user, of the teams they are in, and of what each of these was given on single apps. */
export function standingOf(user: UserResource, { teams, grants }: Records): Standing {
  const own = teams.filter(({ spec }) => spec.memberIds.includes(user.id));
  const cluster = own.reduce<Level>((most, { spec }) => higher(most, spec.role ?? 'none'), user.spec.role ?? 'none');
  const teamIds = new Set(own.map(({ id }) => id));
  const apps = new Map<string, Level>();
  for (const { spec } of grants) {
    const isOwn = spec.kind === 'user' ? spec.subjectId === user.id : teamIds.has(spec.subjectId);
    if (isOwn) apps.set(spec.appId, higher(apps.get(spec.appId) ?? 'none', spec.role));
  }
  return { cluster, apps };
}
