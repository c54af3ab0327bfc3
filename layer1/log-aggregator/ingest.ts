/** Turns what a host agent sends into lines of apps. */
import { LineSplitter } from '@flynn/kit/lines';
import { z } from 'zod';
import { lineSchema } from './api.ts';
import type { Line } from './api.ts';

/** A message of the engine is far shorter; longer lines come apart and are refused as not being JSON. */
const maxLineBytes = 1024 * 1024;

/** The host agent's LogLine. Timestamps are compared as text, so they have to be in UTC. */
export const sentLineSchema = lineSchema.omit({ processType: true }).extend({
  timestamp: z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/),
  meta: z.record(z.string(), z.string()),
});

export type Parsed = { app: string; line: Line } | { problem: string };

/** One line of ndjson. Output of jobs that belong to no app has nowhere to go. */
export function parseLine(text: string): Parsed {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { problem: 'it is not JSON' };
  }
  const parsed = sentLineSchema.safeParse(value);
  if (!parsed.success) return { problem: z.prettifyError(parsed.error) };
  const { meta, jobId, hostId, stream, timestamp, message } = parsed.data;
  const app = meta['flynn.app'];
  if (app === undefined || app === '') return { problem: 'its meta has no flynn.app' };
  return { app, line: { jobId, hostId, processType: meta['flynn.type'] ?? '', stream, timestamp, message } };
}

/** Every line of the body. A last line without its end is one only if the body ended well. */
export async function* parseLines(body: AsyncIterable<Uint8Array>): AsyncGenerator<Parsed> {
  const splitter = new LineSplitter({ maxBytes: maxLineBytes });
  for await (const chunk of body) {
    for (const text of splitter.push(chunk)) if (text !== '') yield parseLine(text);
  }
  for (const text of splitter.flush()) if (text !== '') yield parseLine(text);
}
