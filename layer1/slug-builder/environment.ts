/** Which variables do the programs of a build see? */
import { namesOfTools } from '@flynn/controller/runner-env/settings';
import type { BuildContext } from './buildpack.ts';

/** How this machine reaches registries and what it trusts: what an operator gives the builder reaches the tools. */
const fromHost =
  /^(?:npm_config_.*|https?_proxy|no_proxy|all_proxy|NODE_EXTRA_CA_CERTS|NODE_USE_ENV_PROXY|SSL_CERT_(?:FILE|DIR)|GIT_SSL_CAINFO|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE|PIP_.*|UV_.*|GO(?:PROXY|SUMDB|NOSUMDB|NOPROXY|PRIVATE|INSECURE|FLAGS|VCS)|BUNDLE_.*|COMPOSER_.*|CARGO_(?:MIRROR_URL|HTTP_.*|NET_.*)|MAVEN_MIRROR_URL|MVNW_REPOURL|FLYNN_DEBIAN_(?:SECURITY_)?MIRROR|LANG|LC_ALL|TZ)$/i;

const givenNames = 'FLYNN_BUILD_ENV';

/** What an operator gives to all builds, whatever it is called. */
export function givenEnv(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const names = (env[givenNames] ?? '').split(',').filter((name) => !namesOfTools.has(name));
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = env[name];
      return value === undefined ? [] : [[name, value] as const];
    }),
  );
}

/** Of every program: nothing of the cluster's but what is for builds, nothing of the app's. */
export function baseEnv(
  env: Readonly<Record<string, string | undefined>>,
  facts: { home: string; commit: string },
): Record<string, string> {
  const passed = Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && (fromHost.test(name) || name === givenNames) ? [[name, value] as const] : [],
  );
  return {
    LANG: 'C.UTF-8',
    ...Object.fromEntries(passed),
    ...givenEnv(env),
    PATH: env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin',
    HOME: facts.home,
    STACK: 'flynn-1',
    SOURCE_VERSION: facts.commit,
  };
}

/** Of programs that work on the app: its variables too. Custom buildpacks find those in ENV_DIR instead. */
export function buildEnv({ appEnv, baseEnv }: Pick<BuildContext, 'appEnv' | 'baseEnv'>): Record<string, string> {
  const passed = Object.entries(appEnv).filter(([name]) => !namesOfTools.has(name));
  return { ...baseEnv, ...Object.fromEntries(passed) };
}
