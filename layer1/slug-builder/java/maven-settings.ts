/** Which mirror, proxy and logins does Maven use? It reads none of them from the environment. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BuildContext } from '../buildpack.ts';
import { exists } from '../nodejs/toolchain.ts';
import { type Login, type Proxy, directHosts, loginOf, proxyOf, withoutLogin } from './proxies.ts';

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
  const proxy = proxyOf(env, 'https');
  const parts: string[] = [];
  if (mirror !== undefined) parts.push(...mirrorParts(mirror));
  if (proxy !== undefined) parts.push(proxyPart(proxy, directHosts(env)));
  return `<settings>${parts.join('')}</settings>\n`;
}

/** Maven takes a password out of a server of the same id, and out of no address. */
function mirrorParts(mirror: string): string[] {
  const url = URL.canParse(mirror) ? new URL(mirror) : undefined;
  const login = url === undefined ? undefined : loginOf(url);
  const plain = url === undefined || login === undefined ? mirror : withoutLogin(url);
  const part = element('mirror', `<id>mirror</id><mirrorOf>*</mirrorOf>${element('url', escaped(plain))}`);
  const server = element('servers', element('server', `<id>mirror</id>${loginPart(login)}`));
  return [...(login === undefined ? [] : [server]), element('mirrors', part)];
}

function proxyPart({ host, port, login }: Proxy, direct: string): string {
  const where = `${element('host', escaped(host))}<port>${port}</port>${loginPart(login)}`;
  const part = `<active>true</active><protocol>http</protocol>${where}${element('nonProxyHosts', escaped(direct))}`;
  return element('proxies', element('proxy', part));
}

function loginPart(login: Login | undefined): string {
  if (login === undefined) return '';
  return element('username', escaped(login.username)) + element('password', escaped(login.password));
}

function element(name: string, content: string): string {
  return `<${name}>${content}</${name}>`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
