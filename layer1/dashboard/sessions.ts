/** Logging in and out. Sessions are tokens of the controller, kept by the browser: there is nothing to remember here. */
import { self, tokens } from '@flynn/controller/access/api';
import type { Identity } from '@flynn/controller/access/model';
import { idInToken } from '@flynn/controller/access/token-text';
import { platform } from '@flynn/controller/platform/api';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import type { LoginAnswer, Session } from './api.ts';

/** On whose behalf: their token, and what the controller is to know of where they ask from. */
export type Person = Readonly<{ token: string; headers: Readonly<Record<string, string>> }>;

export type LoggedIn = Readonly<{ token: string; maxAgeSeconds: number }> & Readonly<LoginAnswer>;

/** The most that a browser is logged in for; the controller makes it less where what was shown is good for less. */
const lifeMs = 12 * 3_600_000;
const callMs = 15_000;
/** Of a token that is the cluster's own there is no user. */
const rootName = 'root';

export function authorized({ token, headers }: Person): Record<string, string> {
  return { ...headers, authorization: `Bearer ${token}` };
}

export class Sessions {
  readonly #controller: Pick<HttpClient, 'call'>;
  readonly #now: () => number;

  constructor(controller: Pick<HttpClient, 'call'>, now: () => number) {
    this.#controller = controller;
    this.#now = now;
  }

  /**
   * What was shown is not kept: a token is made of it for this browser, good for no more, and for 12 h at most. A link is used up
   * by that, so nothing is asked after it that could fail. `unauthenticated` for what opens nothing, `denied` for what is nobody's.
   */
  async begin(person: Person, signal: AbortSignal): Promise<LoggedIn> {
    const made = await this.#controller
      .call(
        tokens.exchange,
        { body: { name: 'dashboard', expiresInMs: lifeMs } },
        { signal, timeoutMs: callMs, headers: authorized(person) },
      )
      .catch((error: unknown) => {
        throw refusalOf(error);
      });
    const leftMs = made.expiresAt === undefined ? lifeMs : Date.parse(made.expiresAt) - this.#now();
    const maxAgeSeconds = Math.floor(Math.max(1_000, Math.min(lifeMs, leftMs)) / 1_000);
    return { token: made.token, user: made.user ?? rootName, maxAgeSeconds };
  }

  /** `unauthenticated` once the token is no longer good. */
  async read(person: Person, signal: AbortSignal): Promise<Session> {
    const options = { signal, timeoutMs: callMs, headers: authorized(person) };
    const [identity, { name: cluster, domain }] = await Promise.all([
      this.#controller.call(self.get, {}, options),
      this.#controller.call(platform.cluster, {}, options),
    ]);
    return { ...identity, user: nameOf(identity), cluster, domain, ...expiryOf(identity) };
  }

  /** Takes the token back, which was made for this login alone. One that is gone already is fine. */
  async end(person: Person, signal: AbortSignal): Promise<void> {
    const id = idInToken(person.token);
    if (id === undefined) return;
    try {
      const options = { signal, timeoutMs: callMs, headers: authorized(person) };
      await this.#controller.call(tokens.revoke, { params: { token: id } }, options);
    } catch (error) {
      if (hasCode(error, 'unauthenticated', 'not_found')) return;
      throw new FlynnError(
        'unavailable',
        `this browser has forgotten the login, but its token could not be taken back (${messageOf(error)}): flynn token revoke ${id}`,
        { cause: error },
      );
    }
  }
}

/** In words for who has typed a token, or opened a link. */
function refusalOf(error: unknown): unknown {
  if (hasCode(error, 'denied')) {
    return new FlynnError('denied', 'this is a key of one of the platform’s own parts: log in with a token of yours');
  }
  if (!hasCode(error, 'unauthenticated')) return error;
  const hint = 'a link of "flynn dashboard" is good once, and for ten minutes; "flynn token create" makes a token';
  return new FlynnError('unauthenticated', `${messageOf(error)}; ${hint}`, { cause: error });
}

function nameOf({ kind, name }: Identity): string {
  return kind === 'root' ? rootName : name;
}

function expiryOf({ token }: Identity): Pick<Session, 'expiresAt'> {
  return token?.expiresAt === undefined ? {} : { expiresAt: token.expiresAt };
}
