/** Who asks, and what they may: what the gate knows, for handlers that show each only their own. */
import { FlynnError } from '@flynn/kit/errors';
import type { Caller } from '@flynn/kit/http-gate';
import { clusterLevel, highestLevel, isAtLeast, levelOn, levelOnDatastore, noLimits } from './roles.ts';
import type { AppToJudge, Level, Limits, Standing } from './roles.ts';
import type { Service } from './service-token.ts';

type Kind = 'root' | 'user' | 'service';

export const everything: Standing = { cluster: 'admin', apps: new Map() };

/** The apps that have the datastore which this app is; undefined of what is none. */
export type HavingOf = (appId: string) => readonly AppToJudge[] | undefined;

export type PrincipalFacts = Readonly<{
  kind: Kind;
  name: string;
  /** Of a user. */
  userId?: string;
  standing: Standing;
  limits: Limits;
  /** A link opens nothing: it may be exchanged, once. */
  token?: Readonly<{ id: string; expiresAt?: string | undefined; isLink?: boolean }>;
  service?: Service | 'platform';
  /** Of a runner outside of the cluster. */
  runnerId?: string;
  /** The SSH key that a push was signed with. */
  sshKey?: string;
  signal?: AbortSignal;
  /** Of those who are not the cluster's own: without it there are no datastores. */
  havingOf?: HavingOf;
}>;

export class Principal implements Caller {
  readonly kind: Kind;
  readonly name: string;
  readonly userId: string | undefined;
  readonly limits: Limits;
  readonly token: PrincipalFacts['token'];
  readonly service: PrincipalFacts['service'];
  readonly runnerId: string | undefined;
  readonly sshKey: string | undefined;
  readonly signal?: AbortSignal;
  readonly #standing: Standing;
  readonly #havingOf: HavingOf;

  constructor(facts: PrincipalFacts) {
    this.kind = facts.kind;
    this.name = facts.name;
    this.userId = facts.userId;
    this.limits = facts.limits;
    this.token = facts.token;
    this.service = facts.service;
    this.runnerId = facts.runnerId;
    this.sshKey = facts.sshKey;
    if (facts.signal !== undefined) this.signal = facts.signal;
    this.#standing = facts.standing;
    this.#havingOf = facts.havingOf ?? (() => undefined);
  }

  get clusterLevel(): Level {
    return clusterLevel(this.#standing, this.limits);
  }

  get highestLevel(): Level {
    return highestLevel(this.#standing, this.limits);
  }

  get isAdmin(): boolean {
    return this.clusterLevel === 'admin';
  }

  /** It is good for all that its owner may do. Of what is its owner's, and not an app's, others see and change nothing. */
  get isWhole(): boolean {
    return this.limits.role === 'admin' && this.limits.appIds === undefined;
  }

  /** The user it is, in what is theirs: their SSH keys, their tokens. */
  get ownUserId(): string | undefined {
    return this.isWhole ? this.userId : undefined;
  }

  levelOn(app: AppToJudge): Level {
    const having = this.#havingOf(app.id);
    if (having === undefined) return levelOn(app, this.#standing, this.limits);
    return levelOnDatastore(app, having, this.#standing, this.limits);
  }

  canSee(app: AppToJudge): boolean {
    return this.levelOn(app) !== 'none';
  }

  /**
   * Variables hold passwords: those who only look see their names. Those of a datastore open more than what is in it, and are the
   * cluster's.
   */
  canReadSecrets(app: AppToJudge & { isDatastore?: boolean }): boolean {
    const isDatastore = app.isDatastore === true || this.#havingOf(app.id) !== undefined;
    return isAtLeast(this.levelOn(app), isDatastore ? 'admin' : 'developer');
  }

  /** As the audit trail and rate limits know it. */
  get id(): string {
    if (this.token !== undefined) return `token:${this.token.id}`;
    return this.userId === undefined ? `${this.kind}:${this.name}` : `user:${this.userId}`;
  }
}

/** The root key's holder: what the cluster was made with. */
export function rootPrincipal(sshKey?: string): Principal {
  const more = sshKey === undefined ? {} : { sshKey };
  return new Principal({ kind: 'root', name: 'root', standing: everything, limits: noLimits, ...more });
}

/** May do what the gate lets it, on every app. */
export function servicePrincipal(service: Service | 'platform' | 'login'): Principal {
  const own = service === 'login' ? {} : { service };
  return new Principal({ kind: 'service', name: service, ...own, standing: everything, limits: noLimits });
}

/** One outside of the cluster: a runner like the platform's, but only where the gate finds that it has to. */
export function runnerPrincipal(runnerId: string): Principal {
  const own = { service: 'runner', runnerId } as const;
  return new Principal({ kind: 'service', name: `runner ${runnerId}`, ...own, standing: everything, limits: noLimits });
}

/** Of a call that came through the access gate. */
export function principalOf(call: { caller?: Caller }): Principal {
  if (call.caller instanceof Principal) return call.caller;
  throw new FlynnError('internal', 'a call came to the controller past its gate');
}
