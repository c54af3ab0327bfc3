/** Takes what a host agent sends into the logs of its apps. */
import { LineSplitter } from '@flynn/kit/lines';
import { z } from 'zod';
import { lineSchema } from './api.ts';
import type { Line, Sending } from './api.ts';
import type { History } from './history.ts';
import type { KnownLogs } from './known-lines.ts';
import { encodeLine } from './record.ts';

/** A message of an agent has at most 10,000 bytes; what is longer comes apart and is refused as not being JSON. */
const maxLineBytes = 256 * 1024;

/** The host agent's LogLine. Timestamps are compared as text, so they have to be in UTC. */
export const sentLineSchema = lineSchema.omit({ processType: true, releaseId: true }).extend({
  timestamp: z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/),
  meta: z.record(z.string(), z.string()),
});

type Parsed = { app: string; line: Line } | { problem: string };

/** One line of ndjson. Output of jobs that belong to no app has nowhere to go. */
function parseLine(text: string): Parsed {
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
  const releaseId = meta['flynn.release'];
  const release = releaseId === undefined ? {} : { releaseId };
  return {
    app,
    line: { jobId, hostId, processType: meta['flynn.type'] ?? '', stream, ...release, timestamp, message },
  };
}

type Taken = { lines: number; refused: number; problem: string | undefined };

/** Of lines that are sent again so many are looked up at once. */
const lookedUpBytes = 4 * 1024 * 1024;

/**
 * Resolves when all of the body is on disk. A bad line costs only itself. A last line without its end is one only if
 * the body ended well. If it fails, any part of it may have been taken: it is to be sent again.
 */
export async function takeLines(
  history: History,
  body: AsyncIterable<Uint8Array>,
  options: { mode: Sending; known: KnownLogs; signal: AbortSignal },
): Promise<Taken> {
  const { mode, known, signal } = options;
  const splitter = new LineSplitter({ maxBytes: maxLineBytes });
  const taken: Taken = { lines: 0, refused: 0, problem: undefined };
  let apps = new Map<string, Buffer[]>();
  let bytes = 0;

  function sort(texts: readonly string[]): void {
    for (const text of texts) {
      if (text === '') continue;
      const parsed = parseLine(text);
      if ('problem' in parsed) {
        taken.refused += 1;
        taken.problem ??= parsed.problem;
        continue;
      }
      const line = encodeLine(parsed.line);
      bytes += line.length;
      const lines = apps.get(parsed.app);
      if (lines === undefined) apps.set(parsed.app, [line]);
      else lines.push(line);
    }
  }

  async function keep(app: string, lines: readonly Buffer[]): Promise<void> {
    if (history.isRemoved(app)) return;
    if (mode === 'fresh') {
      await history.append(app, lines);
      taken.lines += lines.length;
    } else taken.lines += await known.append(app, lines, { mode, signal });
  }

  async function keepAll(): Promise<void> {
    const sorted = apps;
    apps = new Map();
    bytes = 0;
    if (mode === 'fresh') await Promise.all(Array.from(sorted, ([app, lines]) => keep(app, lines)));
    else for (const [app, lines] of sorted) await keep(app, lines);
  }

  for await (const chunk of body) {
    sort(splitter.push(chunk));
    if (mode === 'fresh' || bytes >= lookedUpBytes) await keepAll();
  }
  sort(splitter.flush());
  await keepAll();
  return taken;
}
