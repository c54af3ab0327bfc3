/** What does an edit of an app's variables change? Pure: the page shows it before it is done, and makes a release of it. */
import { type EnvFile, readEnvFile } from '@flynn/kit/env-file';

export type Values = Readonly<Record<string, string>>;

/** By name: the new value, or null for what is to go. */
export type EnvEdit = Readonly<Record<string, string | null>>;

/** An edit that is under way: `begun` is what each of its variables was as it was edited first, null for none. */
export type EnvDraft = Readonly<{ edit: EnvEdit; begun: EnvEdit }>;

export const noDraft: EnvDraft = { edit: {}, begun: {} };

export type EnvChange = Readonly<{ added: readonly string[]; changed: readonly string[]; removed: readonly string[] }>;

/** As the API has it: kit/names.ts. */
const namePattern = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Why it cannot be a variable's name; undefined when it can. */
export function nameProblem(name: string): string | undefined {
  if (namePattern.test(name)) return undefined;
  return 'a variable has letters, digits and _, and does not start with a digit';
}

/** `before`: the variables as they are now. */
export function drafted({ edit, begun }: EnvDraft, before: Values, more: EnvEdit): EnvDraft {
  const first = Object.keys(more).filter((name) => !Object.hasOwn(edit, name));
  const found = Object.fromEntries(first.map((name) => [name, valueIn(before, name)]));
  return { edit: { ...edit, ...more }, begun: { ...begun, ...found } };
}

export function takenBack({ edit, begun }: EnvDraft, name: string): EnvDraft {
  const { [name]: _edit, ...otherEdits } = edit;
  const { [name]: _begun, ...others } = begun;
  return { edit: otherEdits, begun: others };
}

/** What somebody else has changed since it was edited here, and to something else. */
export function overtaken({ edit, begun }: EnvDraft, before: Values): string[] {
  return Object.keys(edit).filter((name) => {
    const now = valueIn(before, name);
    return now !== valueIn(begun, name) && now !== valueIn(edit, name);
  });
}

function valueIn(values: EnvEdit, name: string): string | null {
  return Object.hasOwn(values, name) ? (values[name] ?? null) : null;
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
