/** What becomes of an app's variables when a resource comes, and when it goes? Pure. */
type Values = Readonly<Record<string, string>>;
/** `references`: those of them that refer to others, as they were written. */
export type Variables = Readonly<{ env: Values; references: Values }>;

export type Merged = Readonly<{
  after: Variables;
  /** What the app has under the same names, with other values. */
  taken: readonly string[];
  isChanged: boolean;
}>;

export function merged({ env, references }: Variables, given: Values): Merged {
  const names = Object.keys(given);
  const others = names.filter((name) => env[name] !== given[name]);
  return {
    after: { env: { ...env, ...given }, references: without(references, others) },
    taken: others.filter((name) => env[name] !== undefined).toSorted(),
    isChanged: others.length > 0,
  };
}

/** What somebody set to something else since, or made refer to others, is theirs, and stays. */
export function taken({ env, references }: Variables, given: Values): Omit<Merged, 'taken'> {
  const own = Object.keys(given).filter((name) => env[name] === given[name] && references[name] === undefined);
  return { after: { env: without(env, own), references }, isChanged: own.length > 0 };
}

function without(values: Values, names: readonly string[]): Values {
  return Object.fromEntries(Object.entries(values).filter(([name]) => !names.includes(name)));
}
