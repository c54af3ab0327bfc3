/**
 * Where packages come from that ask for a login, as uv and Poetry are told it by variables. pip gets each login as a variable too:
 * it is in no file, and pip prints no password. Pure.
 */
import { isUsualIndex } from './locked.ts';

export type NamedIndex = Readonly<{
  name: string;
  url: string;
  /** Asked in the place of the usual one. */
  isDefault: boolean;
}>;
type Env = Readonly<Record<string, string>>;

export type Authorized = Readonly<{
  /** As pip reads them in a file: `https://${FLYNN_INDEX_1}@host/simple`. */
  urls: readonly string[];
  /** What the variables in them stand for. */
  env: Env;
}>;

/** `env`: the app's variables, with those of all builds. An index without a login stays as it is. */
export function authorized(urls: readonly string[], named: readonly NamedIndex[], env: Env): Authorized {
  const known = loginsOf(named, env);
  const own: Record<string, string> = {};
  const all = urls.map((text) => {
    const login = known.get(plain(text));
    if (login === undefined || !URL.canParse(text) || hasLogin(new URL(text))) return text;
    const name = `FLYNN_INDEX_${Object.keys(own).length + 1}`;
    own[name] = login;
    return text.replace('://', `://\${${name}}@`);
  });
  return { urls: all, env: own };
}

/** What the variables of an index begin with, after `UV_INDEX_` or `POETRY_HTTP_BASIC_`. */
export function variableOf(name: string): string {
  return name.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_');
}

/** As they stand in an address, by the address without. */
function loginsOf(named: readonly NamedIndex[], env: Env): Map<string, string> {
  const logins = new Map<string, string>();
  for (const { name, url } of [...indexesOf(env), ...named]) {
    const login = loginNamed(name, env) ?? loginWithin(url);
    if (login !== undefined && !logins.has(plain(url))) logins.set(plain(url), login);
  }
  return logins;
}

function loginNamed(name: string, env: Env): string | undefined {
  for (const tool of ['UV_INDEX', 'POETRY_HTTP_BASIC']) {
    const username = env[`${tool}_${variableOf(name)}_USERNAME`];
    const password = env[`${tool}_${variableOf(name)}_PASSWORD`];
    if (name === '' || (username === undefined && password === undefined)) continue;
    return loginText(encodeURIComponent(username ?? ''), encodeURIComponent(password ?? ''));
  }
  return undefined;
}

function loginWithin(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url === undefined || !hasLogin(url) ? undefined : loginText(url.username, url.password);
}

/** A token may be a name without a password. With the colon pip would print it, and an empty password in its place. */
function loginText(username: string, password: string): string {
  return password === '' ? username : `${username}:${password}`;
}

/** `NAME=URL` or an address alone, with spaces between several. */
function indexesOf(env: Env): NamedIndex[] {
  const texts = ['UV_DEFAULT_INDEX', 'UV_INDEX_URL', 'UV_INDEX', 'UV_EXTRA_INDEX_URL'].flatMap(
    (name) => env[name] ?? [],
  );
  return texts.flatMap((text) => text.split(/\s+/)).flatMap((text) => (text === '' ? [] : [indexIn(text)]));
}

function indexIn(text: string): NamedIndex {
  const [, name = '', url = text] = /^([\w.-]+)=(.*)$/.exec(text) ?? [];
  return { name, url, isDefault: false };
}

/**
 * What pip asks where nothing else is named, as a variable of its own: what uv is told counts where pip is told nothing by the
 * same hand. Undefined where only pip's own counts.
 */
export function defaultIndex(appEnv: Env, baseEnv: Env): string | undefined {
  for (const env of [appEnv, baseEnv]) {
    if (env['PIP_INDEX_URL'] !== undefined) return undefined;
    const text = (env['UV_DEFAULT_INDEX'] ?? env['UV_INDEX_URL'] ?? '').trim();
    if (text === '') continue;
    const index = indexIn(text);
    const { urls, env: own } = authorized([index.url], [index], { ...baseEnv, ...appEnv });
    return urls.map((url) => url.replaceAll(/\$\{(\w+)\}/g, (all, name: string) => own[name] ?? all))[0];
  }
  return undefined;
}

/** For people, where an index did not let the app in: one line for each but the usual. */
export function loginAdvice(urls: readonly string[], named: readonly NamedIndex[]): string[] {
  return urls
    .filter((url) => !isUsualIndex(url))
    .map((url) => {
      const name = named.find((one) => plain(one.url) === plain(url) && one.name !== '')?.name;
      const variable = name === undefined ? 'NAME' : variableOf(name);
      const unnamed = name === undefined ? ', once pyproject.toml has a name for it' : '';
      return `that ${shown(url)} lets the app in: it logs in with UV_INDEX_${variable}_USERNAME and UV_INDEX_${variable}_PASSWORD of the app (or POETRY_HTTP_BASIC_${variable}_USERNAME and _PASSWORD)${unnamed}`;
    });
}

/** What is the same for people is the same here: without a login and the slash at its end. */
function plain(text: string): string {
  return shown(text).replace(/\/+$/, '');
}

function shown(text: string): string {
  return text.replace(/^([a-z+]+:\/\/)[^/@]*@/i, '$1');
}

function hasLogin({ username, password }: URL): boolean {
  return username !== '' || password !== '';
}
