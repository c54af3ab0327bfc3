/** Lines as syslog messages (RFC 5424), each with its length in front (RFC 6587, section 3.4.1). Pure. */
import type { Line } from './api.ts';

/** Facility "user-level messages", with a severity by the line's stream. */
const priorities = { stdout: 8 + 6, stderr: 8 + 3, init: 8 + 5 } as const satisfies Record<Line['stream'], number>;

export function syslogMessage(line: Line, appName: string): Buffer {
  const { hostId, processType, jobId, stream, timestamp, message } = line;
  // Six digits behind the point are the most it allows.
  const time = timestamp.replace(/(\.\d{6})\d+Z$/, '$1Z');
  const process = name(`${processType}.${jobId}`, 128);
  const header = `<${priorities[stream]}>1 ${time} ${name(hostId, 255)} ${name(appName, 48)} ${process} ${stream} -`;
  const text = Buffer.from(`${header} ${message}`);
  return Buffer.concat([Buffer.from(`${text.length} `), text]);
}

/** Printable ASCII without spaces, at most so long. */
function name(text: string, limit: number): string {
  return text.replaceAll(/[^!-~]/g, '?').slice(0, limit) || '-';
}
