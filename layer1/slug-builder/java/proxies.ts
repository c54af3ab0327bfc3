/** By which proxies is something reached, as Java's tools are told? They read none of the variables that others do. Pure. */

export type Proxy = { host: string; port: string; login: Login | undefined };
export type Login = { username: string; password: string };

export function proxyOf(env: Readonly<Record<string, string>>, scheme: 'http' | 'https'): Proxy | undefined {
  const text = env[`${scheme}_proxy`] ?? env[`${scheme.toUpperCase()}_PROXY`];
  if (text === undefined || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port;
  return { host: url.hostname, port, login: loginOf(url) };
}

/** As Java writes what is reached without: `|` between them, a star for any beginning. */
export function directHosts(env: Readonly<Record<string, string>>): string {
  const hosts = (env['no_proxy'] ?? env['NO_PROXY'] ?? '').split(',').map((host) => host.trim());
  return hosts
    .filter((host) => host !== '')
    .map((host) => (host.startsWith('.') ? `*${host}` : host))
    .join('|');
}

export function loginOf({ username, password }: URL): Login | undefined {
  if (username === '' && password === '') return undefined;
  return { username: decoded(username), password: decoded(password) };
}

export function withoutLogin(url: URL): string {
  const plain = new URL(url);
  plain.username = '';
  plain.password = '';
  return plain.href;
}

/** A percent sign that begins no character stays, as other tools leave it. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
