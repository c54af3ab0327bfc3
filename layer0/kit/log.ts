/** Structured logs: one JSON object a line on stdout. */
import { pino } from 'pino';

export type Logger = pino.Logger;

/** Redacted wherever they stand at the top of a log record or one level below it. */
const secretFields = ['key', 'authorization', 'secret', 'password', 'token', 'cookie'];
const redact = { paths: secretFields.flatMap((field) => [field, `*.${field}`]), censor: '***' };

export function createLogger(
  name: string,
  options: { level?: string; destination?: { write(line: string): unknown } | undefined } = {},
): Logger {
  const settings: pino.LoggerOptions = {
    name,
    level: options.level ?? 'info',
    base: { name },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    serializers: { err: pino.stdSerializers.errWithCause, error: pino.stdSerializers.errWithCause },
    redact,
  };
  // Synchronous: what a process says last is not lost or out of order when it exits.
  const { destination } = options;
  if (destination !== undefined) return pino(settings, destination);
  return pino(settings, pino.destination({ dest: 1, sync: true }));
}

export function silentLogger(): Logger {
  return pino({ level: 'silent' });
}
