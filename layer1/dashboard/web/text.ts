/** Times, sizes and counts as people read them. Pure. */
const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** `12 s`, `5 min`, `3 h`, `4 d`: one unit, rounded down. */
export function durationText(ms: number): string {
  if (ms < minute) return `${Math.max(0, Math.floor(ms / second))} s`;
  if (ms < hour) return `${Math.floor(ms / minute)} min`;
  if (ms < 2 * day) return `${Math.floor(ms / hour)} h`;
  return `${Math.floor(ms / day)} d`;
}

/** `5 min ago`, `in 3 h`; within five seconds it is `now`: clocks differ. */
export function relativeText(at: string, now: number): string {
  const ms = Date.parse(at) - now;
  if (Math.abs(ms) < 5 * second) return 'now';
  return ms < 0 ? `${durationText(-ms)} ago` : `in ${durationText(ms)}`;
}

/** `512 MB`, `1.5 GB`: in powers of 1024, as limits are set. */
export function bytesText(bytes: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  return `${value >= 10 || power === 0 ? Math.round(value) : Math.round(value * 10) / 10} ${units[power]}`;
}

/** `1 job`, `2 jobs`. */
export function countText(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** `840`, `12.3 k`, `1.2 M`. */
export function figureText(value: number): string {
  if (value < 10_000) return String(value);
  if (value < 1_000_000) return `${(value / 1_000).toFixed(1)} k`;
  return `${(value / 1_000_000).toFixed(1)} M`;
}

/** `0.004`, `0.42`, `12.3`, `840`: about as exact as somebody wants to know. */
export function rateText(value: number): string {
  const places = value < 0.1 ? 3 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return value < 10_000 ? String(Number(value.toFixed(places))) : figureText(value);
}

export function millisecondsText(ms: number): string {
  return ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

/** The first letters of a commit or a digest, as git shows them. */
export function shortText(id: string): string {
  return id.replace(/^sha256:/, '').slice(0, 10);
}
