/** What becomes of an app's variables when a resource comes, when its password is another, and when it goes? Pure. */
import type { Login } from '@flynn/appliances/appliance';

type Values = Readonly<Record<string, string>>;
/** What a resource gives: variables, and the services they lead to where these are the cluster's own. */
export type Given = Readonly<{ env: Values; links: readonly string[] }>;
/** `references`: those of them that refer to others, as they were written. */
export type Variables = Given & Readonly<{ references: Values }>;

export type Merged = Readonly<{
  after: Variables;
  /** What the app has under the same names, with other values. */
  taken: readonly string[];
  isChanged: boolean;
}>;

export function merged({ env, references, links }: Variables, given: Given): Merged {
  const names = Object.keys(given.env);
  const others = names.filter((name) => env[name] !== given.env[name]);
  const after = [...new Set([...links, ...given.links])];
  return {
    after: { env: { ...env, ...given.env }, references: without(references, others), links: after },
    taken: others.filter((name) => env[name] !== undefined).toSorted(),
    isChanged: others.length > 0 || after.length > links.length,
  };
}

/** What somebody set to something else since, or made refer to others, is theirs, and stays. */
export function taken({ env, references, links }: Variables, given: Given): Omit<Merged, 'taken'> {
  const own = Object.keys(given.env).filter((name) => env[name] === given.env[name] && references[name] === undefined);
  const left = links.filter((link) => !given.links.includes(link));
  return {
    after: { env: without(env, own), references, links: left },
    isChanged: own.length > 0 || left.length < links.length,
  };
}

/** A login by the variables that it was given with. */
export type GivenLogin = Readonly<{ login: Login; env: Values }>;

/**
 * With `next` wherever `former` is as it was given, and in addresses that somebody made of it (`NAME:PASSWORD@`). What has no
 * password in it, like a user's name, goes along with one that is as it was given: another database may have the same.
 */
export function renewed(
  { env, references, links }: Variables,
  { former, next }: Readonly<{ former: GivenLogin; next: GivenLogin }>,
): { after: Variables; isChanged: boolean } {
  const { password } = former.login;
  const hasPassword = Object.entries(former.env).some(([name, value]) => value === password && env[name] === password);
  const renew = (name: string, value: string): string => {
    // What refers to others is made of what they hold by then.
    if (references[name] !== undefined) return value;
    const given = next.env[name];
    const isAsGiven = value === former.env[name] && (value.includes(password) || hasPassword);
    if (isAsGiven && given !== undefined) return given;
    return value.replaceAll(addressPart(former.login), () => addressPart(next.login));
  };
  const after = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, renew(name, value)]));
  const isChanged = Object.entries(after).some(([name, value]) => value !== env[name]);
  return { after: { env: after, references, links }, isChanged };
}

function addressPart({ name, password }: Login): string {
  return `${name}:${password}@`;
}

/** Names of the variables that have that password in them, those of process types with a word of which. */
export function namesHolding(
  password: string,
  { env, processes }: Readonly<{ env: Values; processes: Readonly<Record<string, { env: Values }>> }>,
): string[] {
  const namesIn = (values: Values): string[] =>
    Object.entries(values).flatMap(([name, value]) => (value.includes(password) ? [name] : []));
  const ofTypes = Object.entries(processes).flatMap(([type, own]) =>
    namesIn(own.env).map((name) => `${name} of ${type}`),
  );
  return [...namesIn(env), ...ofTypes].toSorted();
}

function without(values: Values, names: readonly string[]): Values {
  return Object.fromEntries(Object.entries(values).filter(([name]) => !names.includes(name)));
}
