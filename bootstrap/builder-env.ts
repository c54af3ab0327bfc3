/** What builds need to reach the registries that this machine reaches. */
import { type Machine, readMachine } from './images/machine.ts';
import { debianSuite } from './images/recipes.ts';

export function builderEnvOf(machine: Pick<Machine, 'npmRegistry' | 'proxies'>): Record<string, string> {
  return {
    ...(machine.npmRegistry === undefined ? {} : { NPM_CONFIG_REGISTRY: machine.npmRegistry }),
    ...machine.proxies,
  };
}

export async function readBuilderEnv(env: Record<string, string | undefined>): Promise<Record<string, string>> {
  return builderEnvOf(await readMachine(debianSuite, env));
}
