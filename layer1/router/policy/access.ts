/** Whom does a route let in? By address, by password, by either or by both. */
import { timingSafeEqual } from 'node:crypto';
import type { RouteAccess } from '@flynn/controller/routes/settings';
import type { Fields } from '../exchange.ts';
import { refusals } from './answers.ts';
import type { Refusal } from './answers.ts';
import { challengeFor, readBasic } from './credentials.ts';
import type { Credentials } from './credentials.ts';
import { Networks } from './networks.ts';
import type { Checked, Passwords } from './passwords.ts';

export type Judgement =
  /** `hasPassword`: what the client says of who it is was for the route, and is nothing for the app. */
  | { readonly is: 'in'; readonly hasPassword: boolean }
  | { readonly is: 'password-wanted' }
  | { readonly is: 'address-refused' }
  /** A password that has not been looked at yet. */
  | { readonly is: 'unsure'; readonly credentials: Credentials };

const inAsItIs: Judgement = { is: 'in', hasPassword: false };
const inByPassword: Judgement = { is: 'in', hasPassword: true };
const passwordWanted: Judgement = { is: 'password-wanted' };
const addressRefused: Judgement = { is: 'address-refused' };

/** Of passwords that were wrong lately: who says the same again is told the same, for nothing. */
const maxWrong = 256;
/** The key of nobody's hash. */
const noKey = 'A'.repeat(43);

/**
 * INVARIANTS. What it knows to be right is of these users' hashes: with any change of who may come in there is another one of
 * these. It keeps no password, and one digest for each user.
 */
export class RouteGate {
  readonly #access: RouteAccess;
  readonly #app: string;
  readonly #hashes: ReadonlyMap<string, string | undefined>;
  /** A user that there is not takes as long as one that there is. */
  readonly #nobodys: string;
  readonly #right = new Map<string, Buffer>();
  readonly #wrong = new Set<string>();
  readonly #underWay = new Map<string, Promise<Checked>>();
  readonly networks: Networks;

  /** `app`: apps take turns with the passwords that are looked at. */
  constructor(access: RouteAccess, app: string) {
    this.#access = access;
    this.#app = app;
    this.#hashes = new Map(Object.entries(access.users).map(([name, { hash }]) => [name, hash]));
    this.#nobodys = nobodysHash(this.#hashes.values());
    this.networks = new Networks(access.allow);
  }

  /** What is known at once. */
  judge(address: string, authorization: string | undefined): Judgement {
    const { allow, needs } = this.#access;
    const isNamed = this.networks.has(address);
    if (this.#hashes.size === 0) return isNamed ? inAsItIs : addressRefused;
    if (needs === 'all' && allow.length > 0 && !isNamed) return addressRefused;
    const credentials = readBasic(authorization);
    if (needs === 'any' && isNamed) {
      // Browsers say it from everywhere once they know it.
      return credentials !== undefined && this.#hashes.has(credentials.user) ? inByPassword : inAsItIs;
    }
    if (credentials === undefined) return passwordWanted;
    const { user, digest } = credentials;
    const right = this.#right.get(user);
    if (right !== undefined && timingSafeEqual(right, digest)) return inByPassword;
    return this.#wrong.has(digest.toString('base64')) ? passwordWanted : { is: 'unsure', credentials };
  }

  /** Who asks several times at once is looked at once. Never fails. */
  check(credentials: Credentials, client: string, passwords: Pick<Passwords, 'check'>): Promise<Checked> {
    const name = credentials.digest.toString('base64');
    const key = `${client} ${name}`;
    const known = this.#underWay.get(key);
    if (known !== undefined) return known;
    const { user, password } = credentials;
    const hash = this.#hashes.get(user) ?? this.#nobodys;
    const checked = passwords.check({ app: this.#app, client, password, hash }).then((found) => {
      this.#underWay.delete(key);
      if (found.is === 'right') this.#right.set(user, credentials.digest);
      else if (found.is === 'wrong') this.#keepWrong(name);
      return found;
    });
    this.#underWay.set(key, checked);
    return checked;
  }

  #keepWrong(name: string): void {
    if (this.#wrong.size >= maxWrong) this.#wrong.clear();
    this.#wrong.add(name);
  }
}

/** It costs what that of the first user does. */
function nobodysHash(hashes: Iterable<string | undefined>): string {
  const [first = ''] = hashes;
  return first.replace(/[^$]*$/, noKey);
}

export type RefusedEntry = { readonly refusal: Refusal; readonly more: Fields };

/** What is answered for a password that was looked at; undefined for one that is right. `host`: of the request. */
export function refusedEntry(checked: Checked, host: string): RefusedEntry | undefined {
  if (checked.is === 'right') return undefined;
  if (checked.is === 'wrong') return { refusal: refusals.passwordWanted, more: challengeFor(host) };
  if (checked.is === 'busy') return { refusal: refusals.passwordsBusy, more: ['retry-after', '1'] };
  return { refusal: refusals.passwordTooOften, more: ['retry-after', String(Math.ceil(checked.waitMs / 1_000))] };
}
