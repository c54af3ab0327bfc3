/** Which values of static.json can be used? Each says of one that cannot, what it has to be. Pure. */
import { validateHeaderName, validateHeaderValue } from 'node:http';
import { posix } from 'node:path';
import { z } from 'zod';
import { variables } from './static-rules.ts';

export const pattern = z.string().regex(/^[/*]/, 'has to begin with / or *');
/** A site's file; what comes out begins with a slash. */
export const siteFile = z
  .string('has to be a file of the site')
  .min(1, 'has to be a file of the site')
  .refine((path) => fileOf(path) !== undefined, 'has to be inside the site: it leads out of it')
  .transform((path) => fileOf(path) ?? '/');
const except = z.union([pattern, z.array(pattern)], {
  error: 'has to be a path that begins with / or *, or a list of such paths',
});
export const route = z.preprocess(
  (said) => (typeof said === 'string' ? { path: said } : said),
  z.strictObject(
    { path: siteFile, except: except.default([]) },
    { error: 'has to be the file to give, or {"path": FILE, "except": PATH}' },
  ),
);
const status = z.literal([301, 302, 303, 307, 308], { error: 'has to be 301, 302, 303, 307 or 308' }).default(301);
export const redirect = z.preprocess(
  (said) => (typeof said === 'string' ? { url: said } : said),
  z.strictObject(
    {
      url: z
        .string('has to be the address that it leads to')
        .min(1, 'has to be the address that it leads to')
        .transform(inAscii)
        .refine(isHeaderValue, 'cannot be sent: it has characters that no address has'),
      status: z.preprocess((said) => (typeof said === 'string' ? Number(said) : (said ?? undefined)), status),
    },
    { error: 'has to be an address, or {"url": ADDRESS, "status": 302}' },
  ),
);
export const headerName = z
  .string()
  .refine(isHeaderName, 'is no name of a header: it has to be letters, digits and -')
  .refine((name) => !ofServer.has(name.toLowerCase()), 'is said by the file server itself: remove it');
export const headerValue = z
  .union([z.string(), z.number(), z.boolean()], { error: 'has to be a text' })
  .transform(String)
  .refine(isHeaderValue, 'has characters that no header may have: it has to be one line of ASCII');
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

const truths: ReadonlyMap<unknown, boolean> = new Map<unknown, boolean>([
  ...['true', 'yes', 'on', '1', 1].map((said): [unknown, boolean] => [said, true]),
  ...['false', 'no', 'off', '0', 0].map((said): [unknown, boolean] => [said, false]),
]);
export const truthOf = (said: unknown): unknown =>
  truths.get(typeof said === 'string' ? said.toLowerCase() : said) ?? said;
export const flag = z.preprocess(truthOf, z.boolean({ error: 'has to be true or false' }));

/** Relative, without a slash at the end; undefined for what leads elsewhere. */
export function within(path: string): string | undefined {
  const normal = posix.normalize(path).replace(/\/$/, '');
  return posix.isAbsolute(normal) || normal === '..' || normal.startsWith('../') ? undefined : normal;
}

/** Of the site's folder, whether or not it begins with a slash. What ends with one stays a folder: no file is there. */
function fileOf(path: string): string | undefined {
  const inside = within(path.replace(/^\/+/, '') || '.');
  return inside === undefined ? undefined : `/${inside}${path.endsWith('/') ? '/' : ''}`;
}

/** The same address, as it is sent. */
function inAscii(url: string): string {
  return url.toWellFormed().replace(/[^\0-\u007F]+/g, encodeURIComponent);
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
