/** What builds need to reach the registries that this machine reaches. */
import { type Machine, readMachine } from '../images/machine.ts';
import { debianSuite } from '../images/recipes.ts';

export function builderEnvOf(machine: Pick<Machine, 'npmRegistry' | 'proxies'>): Record<string, string> {
  return {
    ...(machine.npmRegistry === undefined ? {} : { NPM_CONFIG_REGISTRY: machine.npmRegistry }),
    ...machine.proxies,
  };
}

/** Mirrors of languages' packages, as their own tools know them. */
const mirrors =
  /^(?:PIP_(?:INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST)|UV_(?:INDEX_URL|DEFAULT_INDEX)|GO(?:PROXY|SUMDB|NOSUMDB|NOPROXY|PRIVATE)|BUNDLE_MIRROR__\w+|CARGO_MIRROR_URL|MAVEN_MIRROR_URL|MVNW_REPOURL)$/;

export function mirrorsOf(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) =>
      value === undefined || value === '' || !mirrors.test(name) ? [] : [[name, value] as const],
    ),
  );
}

export async function readBuilderEnv(env: Record<string, string | undefined>): Promise<Record<string, string>> {
  return { ...mirrorsOf(env), ...builderEnvOf(await readMachine(debianSuite, env)) };
}
