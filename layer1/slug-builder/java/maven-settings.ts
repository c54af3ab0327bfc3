/** Which mirror, proxy and logins does Maven use? It reads none of them from the environment. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BuildContext } from '../buildpack.ts';
import { exists } from '../nodejs/toolchain.ts';

/** The cluster's are the global ones: what the app's own say counts before them, as its logins at private repositories. */
export async function settingsFlags({
  layout,
  appEnv,
  baseEnv,
}: Pick<BuildContext, 'layout' | 'appEnv' | 'baseEnv'>): Promise<string[]> {
  const global = join(layout.scratchDir, 'maven-settings.xml');
  await writeFile(global, mavenSettings(baseEnv));
  const isAtTop = await exists(join(layout.appDir, 'settings.xml'));
  const own = appEnv['MAVEN_SETTINGS_PATH'] ?? (isAtTop ? 'settings.xml' : '');
  return ['-gs', global, ...(own === '' ? [] : ['-s', own])];
}

export function mavenSettings(env: Readonly<Record<string, string>>): string {
  const mirror = env['MAVEN_MIRROR_URL'];
  const proxy = env['https_proxy'] ?? env['HTTPS_PROXY'];
  const parts: string[] = [];
  if (mirror !== undefined) parts.push(...mirrorParts(mirror));
  if (proxy !== undefined && URL.canParse(proxy)) {
    parts.push(proxyPart(new URL(proxy), env['no_proxy'] ?? env['NO_PROXY'] ?? ''));
  }
  return `<settings>${parts.join('')}</settings>\n`;
}

/** Maven takes a password out of a server of the same id, and out of no address. */
function mirrorParts(mirror: string): string[] {
  const url = URL.canParse(mirror) ? new URL(mirror) : undefined;
  const login = url === undefined ? '' : loginOf(url);
  const plain = url === undefined || login === '' ? mirror : withoutLogin(url);
  const part = element('mirror', `<id>mirror</id><mirrorOf>*</mirrorOf>${element('url', escaped(plain))}`);
  const server = element('servers', element('server', `<id>mirror</id>${login}`));
  return [...(login === '' ? [] : [server]), element('mirrors', part)];
}

function proxyPart(url: URL, noProxy: string): string {
  const direct = noProxy.split(',').filter((host) => host !== '');
  const hosts = direct.map((host) => (host.startsWith('.') ? `*${host}` : host)).join('|');
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port;
  const where = `${element('host', escaped(url.hostname))}<port>${port}</port>${loginOf(url)}`;
  const part = `<active>true</active><protocol>http</protocol>${where}${element('nonProxyHosts', escaped(hosts))}`;
  return element('proxies', element('proxy', part));
}

function loginOf({ username, password }: URL): string {
  if (username === '' && password === '') return '';
  return element('username', escaped(decoded(username))) + element('password', escaped(decoded(password)));
}

function withoutLogin(url: URL): string {
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

function element(name: string, content: string): string {
  return `<${name}>${content}</${name}>`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
