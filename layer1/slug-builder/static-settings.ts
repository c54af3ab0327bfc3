/** What do static.json and Staticfile say of a site: which folder, and by which rules is it served? */
import { validateHeaderName, validateHeaderValue } from 'node:http';
import { posix } from 'node:path';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { z } from 'zod';
import { parse as parseYaml } from 'yaml';
import { type SiteRules, plainRules, variables } from './static-rules.ts';

export type SiteSettings = {
  /** Inside the repository, relative, without a slash at the end. */
  root: string | undefined;
  rules: SiteRules;
  /** What stands there and is not done, for people. */
  notes: string[];
};

const pattern = z.string().regex(/^[/*]/, 'begins with / or *');
const except = z.union([pattern, z.array(pattern)], { error: 'is a path, or a list of paths' });
const route = z.union([z.string().min(1), z.strictObject({ path: z.string().min(1), except: except.default([]) })], {
  error: 'is the file to give, or {"path": FILE, "except": PATH}',
});
const redirect = z.strictObject({
  url: z.string().min(1).refine(isHeaderValue, 'cannot be sent: write other characters than ASCII as %…'),
  status: z.literal([301, 302, 303, 307, 308], { error: 'is 301, 302, 303, 307 or 308' }).default(301),
});
const headerName = z
  .string()
  .refine(isHeaderName, 'is no name of a header')
  .refine((name) => !ofServer.has(name.toLowerCase()), 'is said by the file server itself');
const headerValue = z
  .union([z.string(), z.number(), z.boolean()], { error: 'is a text' })
  .transform(String)
  .refine(isHeaderValue, 'has characters that no header may have');
/** Of how an answer is sent, which only who sends it knows. */
const ofServer: ReadonlySet<string> = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'date',
  'keep-alive',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Says of a key what is wrong with it. */
const keyed = <V extends z.ZodType>(key: z.ZodString, value: V) =>
  z.record(key, value, {
    error: (issue) => (issue.code === 'invalid_key' ? issue.issues[0]?.message : 'is an object'),
  });

const settingsSchema = z.object({
  root: z.string({ error: 'names the folder to serve, as in root: public' }).optional(),
  clean_urls: z.boolean().default(true),
  https_only: z.boolean().default(false),
  error_page: z.string({ error: 'is a file of the site' }).min(1).optional(),
  routes: keyed(pattern, route).default({}),
  redirects: keyed(z.string().startsWith('/', 'begins with /'), redirect).default({}),
  headers: keyed(pattern, keyed(headerName, headerValue)).default({}),
  basic_auth: z
    .literal(false, {
      error:
        'is not there: the site would be open to everybody. Remove it, and keep out of the site what is not for all',
    })
    .default(false),
});

/** Known elsewhere, and what does the same here. */
const instead: Readonly<Record<string, string>> = {
  proxies: 'give the other app a route below this site: flynn -a OTHER route add http HOST/PATH',
  encoding: 'texts are sent as UTF-8',
  logging: 'the router keeps the log of requests',
  pushstate: 'say "routes": {"/**": "index.html"}',
  force_https: 'say "https_only": true',
};

/** `invalid` with what is wrong in which file. */
export function readSettings(given: {
  staticJson?: string | undefined;
  staticfile?: string | undefined;
}): SiteSettings {
  const [file, text] =
    given.staticJson === undefined ? ['Staticfile', given.staticfile] : ['static.json', given.staticJson];
  if (text === undefined) return { root: undefined, rules: plainRules, notes: [] };
  const said = sayings(file, text);
  const parsed = settingsSchema.safeParse(said);
  if (!parsed.success) {
    throw new FlynnError('invalid', `${file} is not usable:\n${z.prettifyError(parsed.error).slice(0, 2_000)}`);
  }
  const { data } = parsed;
  const unknown = Object.keys(said).filter((key) => !Object.hasOwn(settingsSchema.shape, key));
  return {
    root: data.root === undefined ? undefined : within(data.root, `${file} names the folder ${data.root}`),
    rules: {
      cleanUrls: data.clean_urls,
      httpsOnly: data.https_only,
      errorPage: data.error_page === undefined ? undefined : fileOf(data.error_page, file),
      routes: Object.entries(data.routes).map(([key, one]) => {
        const { path, except: not } = typeof one === 'string' ? { path: one, except: [] } : one;
        return { pattern: key, file: fileOf(path, file), except: [not].flat() };
      }),
      redirects: Object.entries(data.redirects).map(([path, { url, status }]) => ({ path, url, status })),
      headers: Object.entries(data.headers).map(([key, values]) => ({ pattern: key, values })),
    },
    notes: unknown.slice(0, mostNotes).map((key) => {
      const name = key.slice(0, 100);
      const remedy = Object.hasOwn(instead, key)
        ? `is not known here: ${instead[key]}`
        : 'is not known, and does nothing';
      return `${file}: "${name}" ${remedy}`;
    }),
  };
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

function within(path: string, what: string): string {
  const normal = posix.normalize(path).replace(/\/$/, '');
  if (posix.isAbsolute(normal) || normal === '..' || normal.startsWith('../')) {
    throw new FlynnError('invalid', `${what}, which is not inside the repository`);
  }
  return normal;
}

/** Of the site's folder, whether or not it begins with a slash. What ends with one stays a folder: no file is there. */
function fileOf(path: string, file: string): string {
  const inside = within(path.replace(/^\/+/, '') || '.', `${file} names the file ${path}`);
  return `/${inside}${path.endsWith('/') ? '/' : ''}`;
}

function isHeaderName(name: string): boolean {
  return passes(() => validateHeaderName(name));
}

/** What its variables will be is seen when the site starts. */
function isHeaderValue(value: string): boolean {
  const fixed = value.replace(variables, '');
  return /^[\x20-\x7e\t]*$/.test(fixed) && passes(() => validateHeaderValue('x', fixed));
}

function passes(check: () => void): boolean {
  try {
    check();
    return true;
  } catch {
    return false;
  }
}
