/** Structured logs: one JSON object a line on stdout. */
import { pino } from 'pino';

export type Logger = pino.Logger;

/** Redacted wherever they stand at the top of a log record or one level below it. */
const secretFields = ['key', 'authorization', 'secret', 'password', 'token', 'cookie'];
const redact = { paths: secretFields.flatMap((field) => [field, `*.${field}`]), censor: '***' };

export function createLogger(
  name: string,
  options: { level?: string; destination?: NodeJS.WritableStream } = {},
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
  return options.destination === undefined ? pino(settings) : pino(settings, options.destination);
}

export function silentLogger(): Logger {
  return pino({ level: 'silent' });
}
