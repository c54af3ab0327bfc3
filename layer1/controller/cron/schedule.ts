/**
 * When does a crontab line fall due? Pure. Fields, names, steps and "day of month or day of week" as in crontab(5).
 *
 * Where clocks change: a local time that is skipped falls due at the moment the clocks move to, once; of a local time that
 * comes twice only the first counts, unless the hour is `*`: such a line follows the hours that pass.
 */
import { FlynnError } from '@flynn/kit/errors';

export type Schedule = Readonly<{
  minutes: ReadonlySet<number>;
  hours: ReadonlySet<number>;
  days: ReadonlySet<number>;
  months: ReadonlySet<number>;
  weekdays: ReadonlySet<number>;
  /** `*` or `*` with a step: then the other field of days alone decides. */
  isAnyDay: boolean;
  isAnyWeekday: boolean;
  isAnyHour: boolean;
  timezone: string;
}>;

const monthNames = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const dayNames = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const nicknames: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;
/** 29 February comes within eight years, whatever century it is. */
const horizonDays = 8 * 366;

type Field = { name: string; min: number; max: number; names?: readonly string[] };

/** `invalid` says which field is wrong. `timezone` counts unless the line begins with its own. */
export function parseSchedule(text: string, timezone = 'UTC'): Schedule {
  const [, zone = timezone, line = ''] = /^\s*(?:(?:CRON_)?TZ=(\S+)\s+)?(.*?)\s*$/.exec(text) ?? [];
  assertTimezone(zone, text);
  const fields = (nicknames[line.toLowerCase()] ?? line).split(/\s+/);
  if (fields.length !== 5) {
    const known = Object.keys(nicknames).join(', ');
    throw wrong(
      text,
      `has ${line === '' ? 0 : fields.length} fields; write five, as in "30 3 * * *", or one of ${known}`,
    );
  }
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = fields;
  const weekdays = parseField(weekday, { name: 'day of the week', min: 0, max: 7, names: dayNames }, text);
  const schedule: Schedule = {
    minutes: parseField(minute, { name: 'minute', min: 0, max: 59 }, text),
    hours: parseField(hour, { name: 'hour', min: 0, max: 23 }, text),
    days: parseField(day, { name: 'day', min: 1, max: 31 }, text),
    months: parseField(month, { name: 'month', min: 1, max: 12, names: monthNames }, text),
    weekdays: new Set([...weekdays].map((number) => number % 7)),
    isAnyDay: /^[*?]/.test(day),
    isAnyWeekday: /^[*?]/.test(weekday),
    isAnyHour: hour.startsWith('*'),
    timezone: zone,
  };
  if (nextTick(schedule, Date.UTC(2024, 0, 1)) === undefined)
    throw wrong(text, 'never falls due: there is no such day');
  return schedule;
}

function parseField(field: string, { name, min, max, names = [] }: Field, text: string): Set<number> {
  const valueOf = (part: string): number => {
    const named = names.indexOf(part.toLowerCase());
    const value = named === -1 ? Number(part) : named + (min === 1 ? 1 : 0);
    if ((named === -1 && !/^\d{1,2}$/.test(part)) || value < min || value > max) {
      throw wrong(text, `has "${part}" as ${name}: it goes from ${min} to ${max}`);
    }
    return value;
  };
  const found = new Set<number>();
  for (const part of field.split(',')) {
    const [, range = '', step = '1'] = /^([^/]*)(?:\/(\d{1,2}))?$/.exec(part) ?? [];
    if (range === '' || Number(step) === 0) throw wrong(text, `has "${part}" as ${name}, which is nothing`);
    const [first = '', last] = range.split('-');
    const isAny = range === '*' || range === '?';
    const from = isAny ? min : valueOf(first);
    const to = isAny ? max : last === undefined ? (part.includes('/') ? max : from) : valueOf(last);
    if (to < from) throw wrong(text, `has "${part}" as ${name}, which ends before it begins`);
    for (let value = from; value <= to; value += Number(step)) found.add(value);
  }
  return found;
}

function wrong(text: string, why: string): FlynnError {
  return new FlynnError('invalid', `the schedule "${text}" ${why}`);
}

function assertTimezone(timezone: string, text: string): void {
  try {
    formatOf(timezone);
  } catch (error) {
    throw new FlynnError(
      'invalid',
      `the schedule "${text}" has the time zone "${timezone}", which nobody knows; write it as in Europe/Berlin`,
      {
        cause: error,
      },
    );
  }
}

/** The first moment after the given one at which it falls due; undefined if there is none. */
export function nextTick(schedule: Schedule, afterMs: number): number | undefined {
  const today = localDay(schedule, afterMs);
  for (let day = 0; day <= horizonDays; day += 1) {
    const tick = ticksOfDay(schedule, today + day * dayMs).find((atMs) => atMs > afterMs);
    if (tick !== undefined) return tick;
  }
  return undefined;
}

/** The last moment up to and with `untilMs`, and after `afterMs`, at which it fell due. */
export function lastTick(schedule: Schedule, span: { afterMs: number; untilMs: number }): number | undefined {
  const { afterMs, untilMs } = span;
  const today = localDay(schedule, untilMs);
  for (let day = 0; day <= horizonDays; day += 1) {
    const date = today - day * dayMs;
    const tick = ticksOfDay(schedule, date).findLast((atMs) => atMs <= untilMs);
    if (tick !== undefined) return tick > afterMs ? tick : undefined;
    // Local days are at most 26 hours long, and begin at most 14 hours off.
    if (date < afterMs - 2 * dayMs) return undefined;
  }
  return undefined;
}

/** The local date of a moment, as the midnight of that date in UTC. */
function localDay({ timezone }: Schedule, atMs: number): number {
  const localMs = atMs + offsetAt(timezone, atMs);
  return Math.floor(localMs / dayMs) * dayMs;
}

/** When it falls due on a local date, given as that date's midnight in UTC. */
function ticksOfDay(schedule: Schedule, date: number): number[] {
  const { minutes, hours, days, months, weekdays, isAnyDay, isAnyWeekday, isAnyHour, timezone } = schedule;
  const at = new Date(date);
  const isDay = days.has(at.getUTCDate());
  const isWeekday = weekdays.has(at.getUTCDay());
  // Where both are given one of them is enough.
  const isDate = isAnyDay || isAnyWeekday ? isDay && isWeekday : isDay || isWeekday;
  if (!isDate || !months.has(at.getUTCMonth() + 1)) return [];
  const before = offsetAt(timezone, date - offsetAt(timezone, date) - dayMs / 2);
  const after = offsetAt(timezone, date - offsetAt(timezone, date) + 1.5 * dayMs);
  const ticks = new Set<number>();
  for (const hour of hours) {
    for (const minute of minutes) {
      const localMs = date + (hour * 60 + minute) * minuteMs;
      for (const atMs of momentsOf(timezone, localMs, { before, after, isAnyHour })) ticks.add(atMs);
    }
  }
  return [...ticks].sort((a, b) => a - b);
}

/** The moments a local time stands for: mostly one. */
function momentsOf(
  timezone: string,
  localMs: number,
  { before, after, isAnyHour }: { before: number; after: number; isAnyHour: boolean },
): number[] {
  if (before === after) return [localMs - before];
  const candidates = [...new Set([localMs - before, localMs - after])].sort((a, b) => a - b);
  const real = candidates.filter((atMs) => atMs + offsetAt(timezone, atMs) === localMs);
  const [first] = real;
  if (first !== undefined) return isAnyHour ? real : [first];
  // Skipped: a line for every hour has nothing to make up for.
  return isAnyHour ? [] : [changeBetween(timezone, candidates)];
}

/** When the clocks move, to the minute. */
function changeBetween(timezone: string, [from = 0, to = 0]: readonly number[]): number {
  const offset = offsetAt(timezone, from);
  let [low, high] = [from, to];
  while (high - low > minuteMs) {
    const middle = low + Math.floor((high - low) / 2 / minuteMs) * minuteMs;
    if (offsetAt(timezone, middle) === offset) low = middle;
    else high = middle;
  }
  return high;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(timezone: string): Intl.DateTimeFormat {
  const known = formats.get(timezone);
  if (known !== undefined) return known;
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: timezone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  formats.set(timezone, format);
  return format;
}

/** How far local clocks are ahead of UTC, in whole minutes. */
function offsetAt(timezone: string, atMs: number): number {
  if (timezone === 'UTC') return 0;
  const parts = Object.fromEntries(
    formatOf(timezone)
      .formatToParts(atMs)
      .map(({ type, value }) => [type, Number(value)]),
  );
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
  const localMs = Date.UTC(year, month - 1, day, hour, minute, second);
  return Math.round((localMs - atMs) / minuteMs) * minuteMs;
}
