/** What do static.json and Staticfile say of a site: which folder, and by which rules is it served? */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { z } from 'zod';
import { parse as parseYaml } from 'yaml';
import { type SiteRules, plainRules } from './static-rules.ts';
import { flag, headerName, headerValue, pattern, redirect, route, siteFile, truthOf, within } from './static-values.ts';

export type SiteSettings = {
  /** Inside the repository, relative, without a slash at the end. */
  root: string | undefined;
  rules: SiteRules;
  /** What stands there and is not done, for people. */
  notes: string[];
};

/**
 * What ends the build where it cannot be used. Without it the site would be there for people it is not for: other files than were
 * meant, without TLS, or without a password.
 */
const guards = z.object({
  root: z.string({ error: 'names the folder to serve, as in root: public' }).optional(),
  https_only: flag.default(false),
  basic_auth: z.preprocess(
    truthOf,
    z
      .literal(false, {
        error:
          'is not there: the site would be open to everybody. Remove it, and keep out of the site what is not for all',
      })
      .default(false),
  ),
});
/** The rest is left out where it cannot be used, entry by entry. */
const others = ['clean_urls', 'error_page', 'routes', 'redirects', 'headers'] as const;
const object = z.record(z.string(), z.unknown(), { error: 'has to be an object' });
const known: ReadonlySet<string> = new Set([...Object.keys(guards.shape), ...others]);

/** Known elsewhere, and what does the same here. */
const instead: Readonly<Record<string, string>> = {
  proxies: 'give the other app a route below this site: flynn -a OTHER route add http HOST/PATH',
  encoding: 'texts are sent as UTF-8',
  logging: 'the router keeps the log of requests',
  pushstate: 'say "routes": {"/**": "index.html"}',
  force_https: 'say "https_only": true',
};

/** `invalid` with what is wrong in which file, where the site cannot be without it; of the rest a note. */
export function readSettings(given: {
  staticJson?: string | undefined;
  staticfile?: string | undefined;
}): SiteSettings {
  const [file, text] =
    given.staticJson === undefined ? ['Staticfile', given.staticfile] : ['static.json', given.staticJson];
  if (text === undefined) return { root: undefined, rules: plainRules, notes: [] };
  const said = sayings(file, text);
  const parsed = guards.safeParse(said);
  if (!parsed.success) {
    throw new FlynnError('invalid', `${file} is not usable:\n${z.prettifyError(parsed.error).slice(0, 2_000)}`);
  }
  const { root, https_only: httpsOnly } = parsed.data;
  const { rules, leftOut } = usableRules(said);
  const unknown = Object.keys(said).filter((key) => !known.has(key));
  const notes = [
    ...leftOut,
    ...unknown.map((key) =>
      Object.hasOwn(instead, key)
        ? `${named(key)} is not known here: ${instead[key]}`
        : `${named(key)} is not known, and does nothing`,
    ),
  ];
  const more = notes.length > mostNotes ? [`and ${notes.length - mostNotes} more`] : [];
  return {
    root: root === undefined ? undefined : folderOf(root, file),
    rules: { ...rules, httpsOnly },
    notes: [...notes.slice(0, mostNotes), ...more].map((note) => `${file}: ${note}`),
  };
}

function usableRules(said: Readonly<Record<string, unknown>>): { rules: SiteRules; leftOut: string[] } {
  const leftOut: string[] = [];
  const leave = (place: readonly string[], issue: { path: readonly PropertyKey[]; message: string } | undefined) => {
    const part = issue?.path[0] === undefined ? 'it' : `its ${named(String(issue.path[0]))}`;
    leftOut.push(`${place.map(named).join(' ')} is left out: ${part} ${issue?.message ?? 'cannot be used'}`);
  };
  const take = <V extends z.ZodType>(schema: V, value: unknown, ...place: string[]): z.output<V>[] => {
    const { success, data, error } = schema.safeParse(value);
    if (success) return [data];
    leave(place, error.issues[0]);
    return [];
  };
  const entries = (name: string): [string, unknown][] => take(object, said[name] ?? {}, name).flatMap(Object.entries);
  const setting = <V extends z.ZodType>(name: string, schema: V): z.output<V> | undefined =>
    said[name] === undefined ? undefined : take(schema, said[name], name)[0];
  const byPattern = (name: string): [string, unknown][] =>
    entries(name).filter(([key]) => take(pattern, key, name, key).length > 0);
  const rules = {
    cleanUrls: setting('clean_urls', flag) ?? true,
    httpsOnly: false,
    errorPage: setting('error_page', siteFile),
    routes: byPattern('routes').flatMap(([key, one]) =>
      take(route, one, 'routes', key).map(({ path, except: not }) => ({
        pattern: key,
        file: path,
        except: [not].flat(),
      })),
    ),
    redirects: entries('redirects').flatMap(([path, one]) =>
      path.startsWith('/')
        ? take(redirect, one, 'redirects', path).map(({ url, status }) => ({ path, url, status }))
        : take(z.never('has to begin with /'), path, 'redirects', path),
    ),
    headers: byPattern('headers').flatMap(([key, one]) =>
      take(object, one, 'headers', key).map((values) => ({
        pattern: key,
        values: Object.fromEntries(
          Object.entries(values).flatMap(([name, value]) =>
            take(headerName, name, 'headers', key, name).flatMap(() =>
              take(headerValue, value, 'headers', key, name).map((text): [string, string] => [name, text]),
            ),
          ),
        ),
      })),
    ),
  };
  return { rules, leftOut };
}

function named(text: string): string {
  return `"${text.slice(0, 100)}"`;
}

const mostNotes = 20;

/** What is null is as if it were not there. */
function sayings(file: string, text: string): Record<string, unknown> {
  let parsed: unknown;
  try {
    // YAML is a superset of JSON.
    parsed = parseYaml(text, { logLevel: 'error' }) ?? {};
  } catch (error) {
    throw new FlynnError('invalid', `${file} cannot be read: ${messageOf(error)}`);
  }
  const { success, data } = z.record(z.string(), z.unknown()).safeParse(parsed);
  if (!success) throw new FlynnError('invalid', `${file} is not usable: it says names and values, as in root: public`);
  return Object.fromEntries(Object.entries(data).filter(([, value]) => value !== null));
}

function folderOf(path: string, file: string): string {
  const folder = within(path);
  if (folder !== undefined) return folder;
  throw new FlynnError('invalid', `${file} names the folder ${path}, which is not inside the repository`);
}
