/** Which variables of the platform's own name may runners and builds be given? What each may hold is said here alone. */
import { loadConfig, nearestOf, secret } from '@flynn/kit/config';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import { buildSettingsSchema } from '../builds/limits.ts';

export const loginsSchema = z.record(z.string(), z.object({ username: z.string(), password: z.string() }));

const logins = secret().transform((text, context) => {
  try {
    return loginsSchema.parse(JSON.parse(text));
  } catch {
    // What it holds is secret.
    context.addIssue({ code: 'custom', message: 'expected JSON, as "flynn registry login" writes it' });
    return z.NEVER;
  }
});

/** Words with commas between them. */
export const list = z.string().transform((text) => text.split(',').filter((word) => word !== ''));

/** Of runners alone: no build gets to see them. */
export const registrySettings = {
  /** Logins by registry, as JSON: `flynn registry login` keeps them. */
  FLYNN_REGISTRY_LOGINS: logins.prefault('{}'),
  /** Registries that have no TLS, with their ports: `10.0.0.5:5000,…`. */
  FLYNN_PLAIN_REGISTRIES: list.prefault(''),
};
const registrySchema = z.object(registrySettings);

type Env = Readonly<Record<string, string | undefined>>;

/** `invalid` names the variable that cannot be read. */
export function registrySettingsOf(env: Env): z.output<typeof registrySchema> {
  return loadConfig(registrySchema, pick(env, Object.keys(registrySettings)));
}

function pick(env: Env, names: readonly string[]): Env {
  return Object.fromEntries(names.map((name) => [name, env[name]]));
}

/** What a build gets of it: all but what is for runners alone. */
export function withoutRunnersOwn(env: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !Object.hasOwn(registrySettings, name)));
}

/** Would change the tools of a build, not what they do. */
export const namesOfTools: ReadonlySet<string> = new Set([
  'PATH',
  'HOME',
  'SHELL',
  'USER',
  'PORT',
  'STACK',
  'BASH_ENV',
  'ENV',
  'IFS',
  'LD_PRELOAD',
  'LD_LIBRARY_PATH',
  'LIBRARY_PATH',
  'CPATH',
  'CPPATH',
  'GIT_DIR',
]);

const ownNames = [...Object.keys(buildSettingsSchema.shape), ...Object.keys(registrySettings)];

/** What is wrong with giving it to runners and builds; undefined: nothing is. Its value is in no message. */
export function problemOf(name: string, value: string): string | undefined {
  if (namesOfTools.has(name)) return 'it would change the programs of a build: give it to the app instead';
  if (!name.startsWith('FLYNN_') || (ownNames.includes(name) && value === '')) return undefined;
  if (!ownNames.includes(name)) {
    const nearest = nearestOf(name, ownNames);
    return `no setting of runners or builds${nearest === undefined ? '' : `: did you mean ${nearest}?`}`;
  }
  const schema = name in registrySettings ? registrySchema : buildSettingsSchema;
  try {
    loadConfig(schema, { [name]: value });
    return undefined;
  } catch (error) {
    if (!(error instanceof FlynnError)) throw error;
    return error.message.split('\n')[1]?.trim().replace(`${name}: `, '') ?? error.message;
  }
}
