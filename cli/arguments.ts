/** What people write as arguments, read strictly. */
import { byteSize } from '@flynn/controller/builds/limits';
import { durationMs } from '@flynn/kit/config';
import { readEnvFile } from '@flynn/kit/env-file';
import { FlynnError } from '@flynn/kit/errors';
import { envName } from '@flynn/kit/names';

/** For what was typed wrongly: the command ends with exit code 2, before anything is asked of the cluster. */
export function usageError(message: string): FlynnError {
  return new FlynnError('invalid', message, { detail: { isUsage: true } });
}

export function isUsageError(error: FlynnError): boolean {
  return error.code === 'invalid' && error.detail['isUsage'] === true;
}

/**
 * What is not UTF-8 has become U+FFFD before anybody here sees it: the value that was meant is lost. The argument is not shown: it
 * may be a secret.
 */
export function assertUtf8(args: readonly string[]): void {
  const at = args.findIndex((arg) => arg.includes('\u{fffd}'));
  if (at === -1) return;
  throw usageError(
    `argument ${at + 1} is not UTF-8, or has U+FFFD in it, which stands for that\n  write it in UTF-8; what is to have that character comes from a file, as with: flynn env set --file PATH`,
  );
}

/** `web=3` and the like. */
export function parseCounts(args: readonly string[]): Record<string, number> {
  const counts = args.map(parseCount);
  const twice = counts.find(([type], at) => counts.findIndex(([other]) => other === type) < at);
  if (twice !== undefined) throw usageError(`${twice[0]} has two counts: write one`);
  return Object.fromEntries(counts);
}

function parseCount(arg: string): [type: string, count: number] {
  const [, type, count] = /^([^=]+)=(.*)$/.exec(arg) ?? [];
  if (type === undefined || count === undefined) {
    throw usageError(`"${arg}" is no scale: write TYPE=COUNT, as in web=3`);
  }
  if (!/^-?\d+$/.test(count)) {
    throw usageError(`"${count}" is no count for ${type}: write a whole number, as in ${type}=3`);
  }
  if (Number(count) < 0) throw usageError(`${type}=${count}: a count cannot be below zero`);
  return [type, Number(count)];
}

/** A whole number within the limits; `what` is for the message: "a port". */
export function parseWhole(text: string, limits: { what: string; min: number; max: number }): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= limits.min && value <= limits.max) return value;
  throw usageError(`"${text}" is not ${limits.what}: write a number from ${limits.min} to ${limits.max}`);
}

const longestDurationMs = 36_525 * 86_400_000;

/** `90s`, `10m`, `2h`, `1d`, in milliseconds. A bare number is refused: who writes one means seconds, days or milliseconds. */
export function parseDurationMs(text: string): number {
  if (/^0*[1-9]\d*$/.test(text))
    throw usageError(`"${text}" has no unit: write ${text}s, ${text}m, ${text}h or ${text}d`);
  const { data } = durationMs.safeParse(text);
  if (data === undefined) throw usageError(`"${text}" is no length of time: write it as 90s, 10m, 2h or 30d`);
  // What is further from now is no moment any more, of which a date could be made.
  if (data > longestDurationMs) throw usageError(`"${text}" is more than a hundred years: write less`);
  return data;
}

/** No timer of Node's runs for more than 24 days: it would not wait at all. */
const longestIntervalMs = 86_400_000;

/** Of --interval: how often something is looked at. */
export function parseIntervalMs(text: string): number {
  const intervalMs = parseDurationMs(text);
  if (intervalMs > longestIntervalMs) throw usageError(`--interval ${text} is too long: 1d is the most`);
  return intervalMs;
}

const byteUnits = { '': 1, B: 1, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3 } as const;

/** `500`, `64KB`, `10MB`, `1GB`, in bytes. */
export function parseBytes(text: string): number {
  const [, amount, unit = ''] = /^(\d{1,9})(B|KB|MB|GB)?$/i.exec(text) ?? [];
  const factor = Object.entries(byteUnits).find(([name]) => name === unit.toUpperCase())?.[1];
  if (amount !== undefined && factor !== undefined) return Number(amount) * factor;
  throw usageError(`"${text}" is no size: write it as 64KB, 10MB or 1GB`);
}

/** What a job may take of memory: `512MB` or `2GB`, in bytes. */
export function parseMemory(text: string): number {
  const { data } = byteSize.safeParse(text);
  if (data === undefined) throw usageError(`"${text}" is no amount of memory: write it as 512MB or 2GB`);
  return data;
}

/** What a job may take of processors, in thousandths of one. */
export function parseCpu(text: string): number {
  return parseWhole(text, { what: 'thousandths of a processor', min: 0, max: 1_000_000 });
}

/** `20/s`, `300/m`, as so many per second. */
export function parseRate(text: string): number {
  const [, amount, unit = 's'] = /^(\d{1,7}(?:\.\d{1,3})?)(?:\/(s|m))?$/.exec(text) ?? [];
  const rate = Number(amount ?? 0) / (unit === 'm' ? 60 : 1);
  if (rate > 0) return rate;
  throw usageError(`"${text}" is no rate: write it as 20/s or 300/m`);
}

const moment = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(Z|[+-]\d\d:?\d\d)?)?$/i;

/**
 * A time, or how long ago: `10m`, `2h`, `1d`, `2030-01-31`, `2030-01-31T12:00Z`; in ISO 8601 in UTC. One without a zone is in
 * UTC, as all that the cluster tells is, wherever this machine stands.
 */
export function parseTime(text: string, now: number): string {
  const { data: agoMs } = durationMs.safeParse(text);
  const timeMs = agoMs !== undefined && /[a-z]$/.test(text) ? now - agoMs : momentMs(text);
  if (!Number.isNaN(new Date(timeMs).getTime())) return new Date(timeMs).toISOString();
  throw usageError(`"${text}" is no time: write how long ago, as 10m or 2h, or a time like 2030-01-31T12:00Z`);
}

function momentMs(text: string): number {
  const [, date = '', time = '00:00', zone = 'Z'] = moment.exec(text) ?? [];
  const dayMs = Date.parse(`${date}T00:00Z`);
  // The 30th of February would be the 2nd of March.
  const isDay = !Number.isNaN(dayMs) && new Date(dayMs).toISOString().startsWith(date);
  return isDay ? Date.parse(`${date}T${time}${zone.toUpperCase()}`) : Number.NaN;
}

/** `KEY=value`, where the value may be anything, `=` included. */
export function parseAssignments(args: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    args.map((arg): [string, string] => {
      const at = arg.indexOf('=');
      if (at < 1) throw usageError(`"${arg}" sets nothing: write NAME=VALUE; an empty value is NAME=`);
      const name = arg.slice(0, at);
      assertEnvName(name);
      return [name, arg.slice(at + 1)];
    }),
  );
}

export function assertEnvName(name: string): void {
  if (!envName.safeParse(name).success) {
    throw usageError(`"${name}" is no name for a variable: letters, digits and _, not starting with a digit`);
  }
}

/** A `.env` file: assignments, empty lines and # comments. */
export function parseEnvFile(text: string): Readonly<Record<string, string>> {
  const read = readEnvFile(text);
  if (read.is === 'wrong') throw new FlynnError('invalid', read.problem);
  return read.values;
}
