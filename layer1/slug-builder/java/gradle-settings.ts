/** Which mirror and proxies does Gradle use? It reads none of them from the environment. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext } from '../buildpack.ts';
import { directHosts, loginOf, proxyOf, withoutLogin } from './proxies.ts';

/** The wrapper, which fetches Gradle itself, reads these flags too. */
export async function gradleFlags({ layout, baseEnv }: Pick<BuildContext, 'layout' | 'baseEnv'>): Promise<string[]> {
  const own = (await readTextFile(join(layout.appDir, 'gradle.properties'))) ?? '';
  const flags = proxyFlags(baseEnv, own);
  const mirror = baseEnv['MAVEN_MIRROR_URL'];
  if (mirror === undefined || !URL.canParse(mirror)) return flags;
  // Its login is neither in the app nor in the cache.
  const file = join(layout.scratchDir, 'mirror.init.gradle');
  await writeFile(file, initScript(new URL(mirror)), { mode: 0o600 });
  return [...flags, '--init-script', file];
}

/** What gradle.properties of the app say of a proxy counts before. */
export function proxyFlags(env: Readonly<Record<string, string>>, ownProperties: string): string[] {
  const flags: string[] = [];
  for (const scheme of ['http', 'https'] as const) {
    const proxy = proxyOf(env, scheme);
    if (proxy === undefined || ownProperties.includes(`systemProp.${scheme}.proxyHost`)) continue;
    flags.push(`-D${scheme}.proxyHost=${proxy.host}`, `-D${scheme}.proxyPort=${proxy.port}`);
    if (proxy.login === undefined) continue;
    flags.push(`-D${scheme}.proxyUser=${proxy.login.username}`, `-D${scheme}.proxyPassword=${proxy.login.password}`);
    // Otherwise Java says no password to a proxy that leads to https.
    flags.push('-Djdk.http.auth.tunneling.disabledSchemes=');
  }
  const direct = directHosts(env);
  // Of both schemes, by Java's rules.
  return flags.length === 0 || direct === '' ? flags : [...flags, `-Dhttp.nonProxyHosts=${direct}`];
}

/**
 * The mirror is in the place of Maven Central, wherever that is named. Plugins are looked for in it first and then in their portal,
 * which mirrors of Central seldom have.
 */
export function initScript(mirror: URL): string {
  const login = loginOf(mirror);
  const lines = [
    `repo.url = new URI(${quoted(login === undefined ? mirror.href : withoutLogin(mirror))})`,
    ...(mirror.protocol === 'http:'
      ? ["if (repo.hasProperty('allowInsecureProtocol')) repo.allowInsecureProtocol = true"]
      : []),
    ...(login === undefined
      ? []
      : [
          'repo.credentials { login ->',
          `  login.username = ${quoted(login.username)}`,
          `  login.password = ${quoted(login.password)}`,
          '}',
        ]),
  ];
  return `def toMirror = { repo ->
${lines.map((line) => `  ${line}`).join('\n')}
}
def instead = { repositories ->
  repositories.withType(MavenArtifactRepository).all { repo ->
    if (repo.url.toString() ==~ '^https?://(repo1?[.]maven[.](org|apache[.]org)|jcenter[.]bintray[.]com)(/.*)?$') toMirror(repo)
  }
}
if (gradle.respondsTo('beforeSettings')) {
  gradle.beforeSettings { settings ->
    def repositories = settings.pluginManagement.repositories
    instead(repositories)
    repositories.maven { repo -> toMirror(repo) }
    repositories.gradlePluginPortal()
  }
}
gradle.settingsEvaluated { settings ->
  if (settings.hasProperty('dependencyResolutionManagement')) instead(settings.dependencyResolutionManagement.repositories)
}
gradle.allprojects { project ->
  instead(project.buildscript.repositories)
  instead(project.repositories)
}
`;
}

/** Between these quotes Groovy reads nothing but its escapes. */
function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
