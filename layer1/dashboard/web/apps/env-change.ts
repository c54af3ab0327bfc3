/** What does an edit of an app's variables change? Pure: the page shows it before it is done, and makes a release of it. */
import { type EnvFile, readEnvFile } from '@flynn/kit/env-file';

export type Values = Readonly<Record<string, string>>;

/** By name: the new value, or null for what is to go. */
export type EnvEdit = Readonly<Record<string, string | null>>;

export type EnvChange = Readonly<{ added: readonly string[]; changed: readonly string[]; removed: readonly string[] }>;

/** As the API has it: kit/names.ts. */
const namePattern = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Why it cannot be a variable's name; undefined when it can. */
export function nameProblem(name: string): string | undefined {
  if (namePattern.test(name)) return undefined;
  return 'a variable has letters, digits and _, and does not start with a digit';
}

export function changeOf(before: Values, edit: EnvEdit): EnvChange {
  const names = Object.keys(edit).toSorted();
  const isThere = (name: string) => Object.hasOwn(before, name);
  return {
    added: names.filter((name) => edit[name] !== null && !isThere(name)),
    changed: names.filter((name) => edit[name] !== null && isThere(name) && before[name] !== edit[name]),
    removed: names.filter((name) => edit[name] === null && isThere(name)),
  };
}

export function isEmpty({ added, changed, removed }: EnvChange): boolean {
  return added.length + changed.length + removed.length === 0;
}

/** A variable that referred to others and is set to a value refers to nothing any more. */
export function edited(
  before: { env: Values; references: Values },
  edit: EnvEdit,
): { env: Values; references: Values } {
  const kept = Object.entries(before.references).filter(([name]) => !Object.hasOwn(edit, name));
  const env = new Map(Object.entries(before.env));
  for (const [name, value] of Object.entries(edit)) {
    if (value === null) env.delete(name);
    else env.set(name, value);
  }
  return { env: Object.fromEntries(env), references: Object.fromEntries(kept) };
}

/** What somebody pastes where a name goes. */
export type Pasted = Readonly<{ is: 'name' }> | EnvFile;

/** A name to go on from, or a .env file, which is read as the command line reads it: whole, or not at all. */
export function pastedOf(text: string): Pasted {
  if (!/[=\n]/.test(text.trim())) return { is: 'name' };
  return readEnvFile(text);
}
