/** The routers that every suite here runs against. */
import type { Driver as DriverName } from '../config.ts';

/** Messages, by their names' beginnings, that a driver on node:http takes as llhttp takes them. */
const takenByLlhttp = [
  'request line "GET  / HTTP/1.1"',
  'request line "GET /  HTTP/1.1"',
  'request line "CONNECT ',
  'a line feed before the request',
  'a carriage return before the request',
  'a request line of 20 KB',
  // It answers what comes behind the last request of a connection, and not that request.
  'Connection names close',
  'HTTP/1.0 with a length',
  'a trailer that may not be one: "Connection: close"',
  // Read to the end of their chunks, and refused only then.
  'Transfer-Encoding alone: ',
  'chunk size "FFFFFFFFFFFFFFFF"',
  'chunk size "8000000000000005"',
  // What is behind them waits for ever.
  'h2c by Upgrade',
  'an upgrade with a body',
  // Of backends.
  'says "HTTP/2.0 200 OK\\r\\n\\r\\n"',
] as const;

export type Driver = {
  readonly name: DriverName;
  readonly takesLeniently: readonly string[];
  /** Requests said in one go that it answers. On node:http all go on at the same time, as many as a backend's queue takes. */
  readonly pipelined: number;
};

export const drivers: readonly Driver[] = [
  { name: 'fast', takesLeniently: [], pipelined: 1_000 },
  { name: 'http-proxy', takesLeniently: takenByLlhttp, pipelined: 200 },
];
