/**
 * Serves a folder over HTTP: ETags, index.html, clean URLs, 404.html, gzip, and the rules of static.json. It goes into slugs of
 * static sites as it is and is run by Node directly, so it imports nothing but Node's own modules and what goes with it.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, readFile, realpath } from 'node:fs/promises';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import { extname, join, sep } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { type SiteRules, elsewhereOf, headersOf, plainRules, withVariables } from './static-rules.ts';

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.htm': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.map': 'application/json',
  '.webmanifest': 'application/manifest+json',
  '.xml': 'application/xml',
  '.txt': 'text/plain; charset=utf-8',
  '.md': 'text/markdown; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
  '.avif': 'image/avif',
  '.ico': 'image/x-icon',
  '.woff': 'font/woff',
  '.woff2': 'font/woff2',
  '.ttf': 'font/ttf',
  '.wasm': 'application/wasm',
  '.pdf': 'application/pdf',
  '.mp4': 'video/mp4',
  '.webm': 'video/webm',
  '.mp3': 'audio/mpeg',
};
const isCompressible = /^(?:text\/|application\/(?:json|xml|manifest|wasm)|image\/svg)/;

type Found = { file: FileHandle; path: string; sizeBytes: number; mtimeMs: number };

type Site = { root: string; rules: SiteRules };

/** Nothing outside the folder is served, not even through links; nor is anything whose name starts with a dot, but .well-known. */
export async function createStaticServer(folder: string, rules: SiteRules = plainRules): Promise<Server> {
  const site = { root: await realpath(folder), rules };
  return createServer((request, response) => {
    answer(site, request, response)
      .catch(async (error: unknown) => {
        // A client that left is nobody's failure.
        if (response.headersSent || response.destroyed) return void response.destroy();
        process.stderr.write(
          `${request.method} ${request.url}: ${error instanceof Error ? error.message : String(error)}\n`,
        );
        return sendProblem(site, request, response, 500);
      })
      .catch(() => response.destroy());
  });
}

async function answer(site: Site, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { root, rules } = site;
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD');
    return send(response, 405, 'Method not allowed\n');
  }
  const [rawPath = '/', query] = (request.url ?? '/').split('?', 2);
  const { host, 'x-forwarded-proto': protocol } = request.headers;
  // Who did not come through the router, as health checks, says neither.
  if (rules.httpsOnly && protocol === 'http' && host !== undefined)
    return redirect(response, 301, `https://${host}${request.url ?? '/'}`);
  const path = decodePath(rawPath);
  if (path === undefined) return send(response, 400, 'Bad request\n');
  for (const [name, value] of Object.entries(headersOf(rules, path))) response.setHeader(name, value);
  const found = await findFile(site, path);
  if (found !== undefined) return sendFile(request, response, 200, found);
  const index = path.endsWith('/') ? undefined : await openFile(root, `${path}/index.html`);
  if (index !== undefined) {
    await index.file.close();
    // Relative links of the page count from the folder. One slash at the start: two would name another host.
    const place = `${rawPath.replace(/^[/\\]+/, '/')}/${query === undefined ? '' : `?${query}`}`;
    return redirect(response, 301, place);
  }
  const elsewhere = elsewhereOf(rules, path);
  if (elsewhere === undefined) return sendProblem(site, request, response, 404);
  if ('url' in elsewhere) return redirect(response, elsewhere.status, elsewhere.url);
  const instead = await openFile(root, elsewhere.file);
  if (instead === undefined) return sendProblem(site, request, response, 404);
  return sendFile(request, response, 200, instead);
}

async function findFile({ root, rules }: Site, path: string): Promise<Found | undefined> {
  if (path.endsWith('/')) return openFile(root, `${path}index.html`);
  return (await openFile(root, path)) ?? (rules.cleanUrls ? await openFile(root, `${path}.html`) : undefined);
}

async function sendProblem(
  { root, rules }: Site,
  request: IncomingMessage,
  response: ServerResponse,
  status: 404 | 500,
): Promise<void> {
  const name = rules.errorPage ?? (status === 404 ? '/404.html' : undefined);
  const page = name === undefined ? undefined : await openFile(root, name);
  if (page !== undefined) return sendFile(request, response, status, page);
  return send(response, status, status === 404 ? 'Not found\n' : 'Internal server error\n');
}

function redirect(response: ServerResponse, status: number, place: string): void {
  response.setHeader('location', place);
  send(response, status, 'Moved\n');
}

/** Undefined for what no file can be called. */
function decodePath(raw: string): string | undefined {
  try {
    const path = decodeURIComponent(raw);
    const segments = path.split('/');
    const isOdd = path.includes('\0') || path.includes('\\') || !path.startsWith('/');
    const isHidden = segments.some((segment) => segment.startsWith('.') && segment !== '.well-known');
    return isOdd || isHidden ? undefined : path;
  } catch {
    return undefined;
  }
}

async function openFile(root: string, path: string): Promise<Found | undefined> {
  let file: FileHandle | undefined;
  try {
    const real = await realpath(join(root, path));
    if (!real.startsWith(root + sep)) return undefined;
    file = await open(real, constants.O_RDONLY | constants.O_NOFOLLOW);
    const status = await file.stat();
    if (status.isFile()) return { file, path: real, sizeBytes: status.size, mtimeMs: status.mtimeMs };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (!['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'EACCES', 'EISDIR'].includes(String(code))) throw error;
  }
  await file?.close();
  return undefined;
}

async function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  found: Found,
): Promise<void> {
  const { file, path, sizeBytes } = found;
  try {
    const type = types[extname(path).toLowerCase()] ?? 'application/octet-stream';
    const isVarying = isCompressible.test(type) && sizeBytes > 1024;
    const isGzipped = isVarying && /\bgzip\b(?!;\s*q=0(?:\.0*)?(?:,|$))/.test(request.headers['accept-encoding'] ?? '');
    // Files of a slug all have the same time, so the content says whether it is the same.
    const etag = `W/"${await digestOf(file)}"`;
    const own = { 'content-type': type, etag, 'cache-control': 'no-cache', 'x-content-type-options': 'nosniff' };
    for (const [name, value] of Object.entries(own)) if (!response.hasHeader(name)) response.setHeader(name, value);
    if (isVarying) response.appendHeader('vary', 'accept-encoding');
    const known = new Set((request.headers['if-none-match'] ?? '').split(',').map((tag) => tag.trim()));
    if (status === 200 && (known.has(etag) || known.has('*'))) {
      response.writeHead(304).end();
      return;
    }
    if (isGzipped) response.setHeader('content-encoding', 'gzip');
    else response.setHeader('content-length', sizeBytes);
    response.writeHead(status);
    if (request.method === 'HEAD') {
      response.end();
      return;
    }
    const body = file.createReadStream({ start: 0, autoClose: false });
    if (isGzipped) await pipeline(body, createGzip(), response);
    else await pipeline(body, response);
  } finally {
    await file.close();
  }
}

const digests = new Map<string, string>();

/** Computed once for each state of a file. */
async function digestOf(file: FileHandle): Promise<string> {
  const { dev, ino, size, mtimeMs, ctimeMs } = await file.stat();
  const key = [dev, ino, size, mtimeMs, ctimeMs].join(':');
  const known = digests.get(key);
  if (known !== undefined) return known;
  const hash = createHash('sha256');
  for await (const chunk of file.createReadStream({ start: 0, autoClose: false })) hash.update(chunk as Buffer);
  const digest = hash.digest('base64url').slice(0, 27);
  digests.set(key, digest);
  return digest;
}

function send(response: ServerResponse, status: number, text: string): void {
  response.setHeader('content-type', 'text/plain; charset=utf-8');
  response.setHeader('content-length', Buffer.byteLength(text));
  response.writeHead(status).end(text);
}

if (import.meta.main) {
  const [folder = '.', rulesFile] = process.argv.slice(2);
  const told = rulesFile === undefined ? plainRules : (JSON.parse(await readFile(rulesFile, 'utf8')) as SiteRules);
  const server = await createStaticServer(folder, withVariables(told, process.env));
  server.listen(Number(process.env['PORT'] ?? 8080), () => process.stdout.write(`Serving ${folder}\n`));
  process.once('SIGTERM', () => {
    server.close(() => process.exit(0));
    server.closeIdleConnections();
  });
}
