/** The blob store over HTTP. */
import type { Readable } from 'node:stream';
import type { StreamAnswer } from '@flynn/kit/http-answer';
import type { Handler } from '@flynn/kit/http-server';
import { handle } from '@flynn/kit/http-server';
import { routes } from './api.ts';
import type { Storage } from './storage.ts';

export function blobHandlers(storage: Storage): Handler[] {
  return [
    handle(routes.put, ({ body, query, signal }) => storage.put(body, { digest: query.digest, signal })),
    handle(routes.get, async ({ params, query: { from } }) =>
      blobAnswer(await storage.open(params.digest, { from }), from),
    ),
    handle(routes.stat, ({ params }) => storage.stat(params.digest)),
    handle(routes.remove, ({ params, query }) => storage.remove(params.digest, query)),
    handle(routes.list, ({ query }) => storage.list(query)),
    handle(routes.listNames, ({ query }) => storage.listNames(query)),
    handle(routes.putName, ({ params, body }) => storage.putName(params.name, body.digest)),
    handle(routes.getName, ({ params }) => storage.getName(params.name)),
    handle(routes.removeName, ({ params }) => storage.removeName(params.name)),
  ];
}

/** What is left of a blob from there on. */
export function blobAnswer({ sizeBytes, body }: { sizeBytes: number; body: Readable }, from: number): StreamAnswer {
  return { body, headers: { 'content-length': String(sizeBytes - from) } };
}
