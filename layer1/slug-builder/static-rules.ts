/**
 * What does a static site answer where no file has the name that was asked for, and with which headers? The semantics of Heroku's
 * buildpack for static sites. It goes into slugs beside the file server, so it imports nothing.
 */

/** Of several that fit: the first of the routes, the last of the headers. Paths are decoded and without a query. */
export type SiteRules = {
  /** `/about` is `about.html`. */
  cleanUrls: boolean;
  httpsOnly: boolean;
  /** Files are relative to the site's folder, and begin with `/`. */
  errorPage?: string | undefined;
  routes: { pattern: string; file: string; except: string[] }[];
  /** `${NAME}` in a URL is a variable of the app. */
  redirects: { path: string; url: string; status: number }[];
  headers: { pattern: string; values: Record<string, string> }[];
};

export const plainRules: SiteRules = { cleanUrls: true, httpsOnly: false, routes: [], redirects: [], headers: [] };

/** Where a redirect leads, or which file is given in the place of the one that is not there. */
export type Elsewhere = { url: string; status: number } | { file: string };

export function elsewhereOf({ redirects, routes }: SiteRules, path: string): Elsewhere | undefined {
  const redirect = redirects.find((one) => one.path === path);
  if (redirect !== undefined) return { url: redirect.url, status: redirect.status };
  const route = routes.find(
    ({ pattern, except }) => fits(pattern, path) && !except.some((prefix) => fits(`${prefix}**`, path)),
  );
  return route === undefined ? undefined : { file: route.file };
}

export function headersOf({ headers }: SiteRules, path: string): Readonly<Record<string, string>> {
  return headers.findLast(({ pattern }) => fits(pattern, path))?.values ?? {};
}

/** The same with variables in their places; throws an error that names one that there is not, or that no address can have. */
export function withVariables(rules: SiteRules, env: Readonly<Record<string, string | undefined>>): SiteRules {
  const filled = (url: string): string =>
    url.replace(variables, (_whole, name: string) => {
      const value = env[name];
      if (value !== undefined && /^[\x21-\x7e]*$/.test(value)) return value;
      const why = value === undefined ? 'the app has no variable of that name' : 'its value is no part of an address';
      throw new Error(`static.json redirects to ${url}, and ${why}: flynn env set ${name}=…`);
    });
  return { ...rules, redirects: rules.redirects.map((redirect) => ({ ...redirect, url: filled(redirect.url) })) };
}

export const variables = /\$\{(\w+)\}/g;

/**
 * `*` is any part of one segment, `**` anything. Which places of the path each piece of the pattern may end at is kept, so that
 * no path takes longer than its length times that of the pattern.
 */
export function fits(pattern: string, path: string): boolean {
  let ends = [0];
  for (const piece of pattern.split(/(\*\*|\*)/)) {
    if (piece === '**') ends = ends.slice(0, 1).flatMap((first) => placesOf(first, path.length));
    else if (piece === '*') ends = withinSegments(path, ends);
    else ends = ends.filter((end) => path.startsWith(piece, end)).map((end) => end + piece.length);
  }
  return ends.at(-1) === path.length;
}

function withinSegments(path: string, starts: readonly number[]): number[] {
  const ends: number[] = [];
  let seen = -1;
  for (const start of starts) {
    if (start <= seen) continue;
    const slash = path.indexOf('/', start);
    const last = slash === -1 ? path.length : slash;
    ends.push(...placesOf(start, last));
    seen = last;
  }
  return ends;
}

function placesOf(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}
