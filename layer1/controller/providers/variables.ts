/** What becomes of an app's variables when a resource comes, and when it goes? Pure. */
type Values = Readonly<Record<string, string>>;
/** What a resource gives: variables, and the services they lead to where these are the cluster's own. */
export type Given = Readonly<{ env: Values; links: readonly string[] }>;
/** `references`: those of them that refer to others, as they were written. */
export type Variables = Given & Readonly<{ references: Values }>;

export type Merged = Readonly<{
  after: Variables;
  /** What the app has under the same names, with other values. */
  taken: readonly string[];
  isChanged: boolean;
}>;

export function merged({ env, references, links }: Variables, given: Given): Merged {
  const names = Object.keys(given.env);
  const others = names.filter((name) => env[name] !== given.env[name]);
  const after = [...new Set([...links, ...given.links])];
  return {
    after: { env: { ...env, ...given.env }, references: without(references, others), links: after },
    taken: others.filter((name) => env[name] !== undefined).toSorted(),
    isChanged: others.length > 0 || after.length > links.length,
  };
}

/** What somebody set to something else since, or made refer to others, is theirs, and stays. */
export function taken({ env, references, links }: Variables, given: Given): Omit<Merged, 'taken'> {
  const own = Object.keys(given.env).filter((name) => env[name] === given.env[name] && references[name] === undefined);
  const left = links.filter((link) => !given.links.includes(link));
  return {
    after: { env: without(env, own), references, links: left },
    isChanged: own.length > 0 || left.length < links.length,
  };
}

function without(values: Values, names: readonly string[]): Values {
  return Object.fromEntries(Object.entries(values).filter(([name]) => !names.includes(name)));
}
