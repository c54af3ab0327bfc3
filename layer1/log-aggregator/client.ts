/** What other services use to reach the log aggregator. */
import type { Readable } from 'node:stream';
import { HttpClient } from '@flynn/kit/http-client';
import { LineSplitter } from '@flynn/kit/lines';
import { lineSchema, routes } from './api.ts';
import type { Line, ReadOptions, Sending } from './api.ts';

export type LogClient = {
  /** Sends ndjson of the host agent's LogLine; resolves with the number of new lines when the body has ended. */
  ingest(body: Readable | string, options?: { mode?: Sending; signal?: AbortSignal }): Promise<number>;
  /** ndjson as it comes, to be passed on. */
  read(
    app: string,
    query: ReadOptions & { isForAdmin?: boolean },
    options?: { signal?: AbortSignal },
  ): Promise<Readable>;
  /** The same, parsed. */
  lines(app: string, query: ReadOptions, options?: { signal?: AbortSignal }): AsyncGenerator<Line>;
  close(): Promise<void>;
};

export function createLogClient(options: { baseUrl: string | (() => Promise<string>); key: string }): LogClient {
  const http = new HttpClient({ ...options, name: 'the log aggregator' });
  const read: LogClient['read'] = (app, query, { signal } = {}) =>
    http.stream(routes.read, { params: { app }, query }, { signal });
  return {
    async ingest(body, { mode = 'replay', signal } = {}) {
      const { lines } = await http.call(routes.ingest, { query: { mode }, body }, { signal });
      return lines;
    },
    read,
    async *lines(app, query, options) {
      const splitter = new LineSplitter({ maxBytes: 4 * 1024 * 1024 });
      for await (const chunk of await read(app, query, options)) {
        for (const text of splitter.push(chunk)) if (text !== '') yield lineSchema.parse(JSON.parse(text));
      }
    },
    close: () => http.close(),
  };
}
