/** What other services use to reach the log aggregator. */
import type { Readable } from 'node:stream';
import { HttpClient } from '@flynn/kit/http-client';
import { LineSplitter } from '@flynn/kit/lines';
import { lineSchema, routes } from './api.ts';
import type { Line } from './api.ts';

/** An agent's connection ends after this and is made again: nothing is meant to last for ever. */
const ingestTimeoutMs = 24 * 3_600_000;

export type ReadOptions = {
  follow?: boolean;
  /** At most so many of the newest lines, then those to come; all there are unless given. */
  lines?: number;
  jobId?: string;
  processType?: string;
  /** Of `stdout,stderr,init`, with commas. */
  streams?: string;
};

export type LogClient = {
  /** Sends ndjson of the host agent's LogLine; resolves with the number of new lines when the body has ended. */
  ingest(body: Readable | string, options?: { signal?: AbortSignal }): Promise<number>;
  /** ndjson as it comes, to be passed on. */
  read(app: string, query: ReadOptions, options?: { signal?: AbortSignal }): Promise<Readable>;
  /** The same, parsed. */
  lines(app: string, query: ReadOptions, options?: { signal?: AbortSignal }): AsyncGenerator<Line>;
  close(): Promise<void>;
};

export function createLogClient(options: { baseUrl: string | (() => Promise<string>); key: string }): LogClient {
  const http = new HttpClient({ ...options, name: 'the log aggregator' });
  const read: LogClient['read'] = (app, query, { signal } = {}) =>
    http.stream(routes.read, { params: { app }, query }, { signal });
  return {
    async ingest(body, { signal } = {}) {
      const { lines } = await http.call(routes.ingest, { body }, { signal, timeoutMs: ingestTimeoutMs });
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
