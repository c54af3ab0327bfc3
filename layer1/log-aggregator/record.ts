/** How a line is kept, and sent: JSON with its fields in this order, and a line end. */
import type { Line } from './api.ts';

export function encodeLine(line: Line): Buffer {
  const { jobId, hostId, processType, stream, releaseId, timestamp, message } = line;
  const release = releaseId === undefined ? {} : { releaseId };
  return Buffer.from(`${JSON.stringify({ jobId, hostId, processType, stream, ...release, timestamp, message })}\n`);
}

/** Where lines are missing: one that belongs to no job. */
export function noticeLine(message: string, timestamp: string): Buffer {
  return encodeLine({ jobId: '', hostId: '', processType: '', stream: 'init', timestamp, message });
}

/** `1 line was`, `2 lines were`. */
export function linesWere(count: number): string {
  return `${count} ${count === 1 ? 'line was' : 'lines were'}`;
}
