/** Tables, values and progress, for people and for pipes. */
import { styleText } from 'node:util';
import cliTruncate from 'cli-truncate';
import stringWidth from 'string-width';
import type { Output } from './io.ts';

/** C0, DEL and C1, but for tabs and line ends. */
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/**
 * Control characters as JSON writes them, `\u001b`: names and reasons come from whoever may ask the cluster anything, and must not
 * tell the terminal of whoever reads them what to do. JSON and YAML of a text stay what they are.
 */
export function visible(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replaceAll(controls, (char) => `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`);
}

/** Columns with two spaces between, no borders: `| awk '{print $1}'` works. Empty cells become `-`, line breaks spaces. */
export function formatTable(header: readonly string[], rows: readonly (readonly (string | undefined)[])[]): string {
  const cells = [header, ...rows].map((row) =>
    row.map((cell) => visible(cell?.replaceAll(/\s+/g, ' ').trim() ?? '') || '-'),
  );
  const widths = header.map((_, column) => Math.max(...cells.map((row) => stringWidth(row[column] ?? ''))));
  return cells
    .map((row) => {
      const line = row.map((cell, column) => padded(cell, widths[column] ?? 0)).join('  ');
      return `${line.trimEnd()}\n`;
    })
    .join('');
}

/** To so many cells of a terminal: of some scripts and signs each takes two. */
function padded(text: string, cells: number): string {
  return text + ' '.repeat(Math.max(0, cells - stringWidth(text)));
}

export function formatAge(iso: string | undefined, now: number): string {
  if (iso === undefined) return '-';
  const seconds = Math.max(0, Math.round((now - Date.parse(iso)) / 1_000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

export function formatSeconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)}s`;
}

const kibibyte = 1024;
const mebibyte = 1024 ** 2;

/** As it was written, where it is a round number: `64KB`, `10MB`. */
export function formatBytes(bytes: number): string {
  for (const [unit, size] of [
    ['GB', 1024 ** 3],
    ['MB', mebibyte],
    ['KB', kibibyte],
  ] as const) {
    if (bytes >= size && bytes % size === 0) return `${bytes / size}${unit}`;
  }
  return String(bytes);
}

/** For people: `42.7 MiB`, `6.3 KiB`, `12 bytes`. MiB is the largest unit: sizes of a column compare at a glance. */
export function formatSize(bytes: number): string {
  if (bytes >= mebibyte - kibibyte / 20) return `${(bytes / mebibyte).toFixed(1)} MiB`;
  return bytes >= kibibyte ? `${(bytes / kibibyte).toFixed(1)} KiB` : formatCount(bytes, 'byte');
}

/** `90s` or `250ms`, the largest unit that fits whole. */
export function formatDuration(ms: number): string {
  for (const [unit, size] of [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['m', 60_000],
    ['s', 1_000],
  ] as const) {
    if (ms >= size && ms % size === 0) return `${ms / size}${unit}`;
  }
  return `${ms}ms`;
}

/** `1 job`, `2 jobs`. */
export function formatCount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** A value as a shell reads it back: bare where nothing needs quoting, `$'…'` where it holds control characters. */
export function quoteForShell(value: string): string {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(value)) return value;
  if (!/[\u0000-\u001f\u007f-\u009f]/.test(value)) return `'${value.replaceAll("'", String.raw`'\''`)}'`;
  const named: Record<string, string> = { '\n': '\\n', '\t': '\\t', '\r': '\\r', '\\': '\\\\', "'": "\\'" };
  const escaped = value.replaceAll(/[\u0000-\u001f\u007f-\u009f\\']/g, (char) => {
    return (
      named[char] ??
      Buffer.from(char)
        .toString('hex')
        .replaceAll(/../g, String.raw`\x$&`)
    );
  });
  return `$'${escaped}'`;
}

export type Colour = 'green' | 'red' | 'dim';

/** NO_COLOR and a terminal that is dumb are what Node's own looks at. */
function takesColours(output: Output): boolean {
  return output.isTTY === true && (output.hasColors?.() ?? true);
}

export function paint(output: Output, colour: Colour, text: string): string {
  return takesColours(output) ? styleText(colour, text, { validateStream: false }) : text;
}

const strokes = /(\u001b\[(?:2|22|31|32|39)m)/;

/** What is painted for this output keeps that, and nothing else of the kind. */
export function visiblyPainted(output: Output, text: string): string {
  if (!takesColours(output)) return visible(text);
  return text
    .split(strokes)
    .map((part, index) => (index % 2 === 0 ? visible(part) : part))
    .join('');
}

/** Resolves once the output can take more, so that a slow reader slows the sender down. */
export async function writeTo(output: Output, data: string | Uint8Array): Promise<void> {
  if (output.write(data)) return;
  const taken = Promise.withResolvers<void>();
  const events = ['drain', 'close', 'error'] as const;
  const onTaken = (): void => taken.resolve();
  for (const event of events) output.once(event, onTaken);
  await taken.promise;
  for (const event of events) output.off(event, onTaken);
}

/** A terminal that nobody gave a size says 0. */
export function sizeOf({ columns = 0, rows = 0 }: Output): { columns: number; rows: number } {
  return { columns: columns > 0 ? columns : 80, rows: rows > 0 ? rows : 24 };
}

const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const patienceMs = 1_000;

/** A line that turns while something is under way, once that takes over a second, and only on a terminal. */
export class ProgressLine implements Disposable {
  readonly #output: Output;
  readonly #timer: NodeJS.Timeout | undefined;
  #isShown = false;

  /** `text` is asked for each time, where it changes. */
  constructor(output: Output, text: string | (() => string)) {
    this.#output = output;
    if (!output.isTTY) return;
    const startedAt = performance.now();
    let step = 0;
    this.#timer = setInterval(() => {
      const tookMs = performance.now() - startedAt;
      if (tookMs < patienceMs) return;
      step += 1;
      this.#isShown = true;
      const [begin, end] = [`${frames[step % frames.length]} `, ` ${formatSeconds(tookMs)}`];
      // One that is wrapped would stay where it is, and be written below anew each time.
      const room = sizeOf(output).columns - 1 - begin.length - end.length;
      const said = visible(typeof text === 'string' ? text : text()).replaceAll(/\s+/g, ' ');
      const line = room < 1 ? '' : `${begin}${cliTruncate(said, room)}${end}`;
      // The one before may have been longer.
      output.write(`\r${line}\u001b[K`);
    }, 100);
  }

  /** Makes room for something else; the line comes back. */
  clear(): void {
    if (this.#isShown) this.#output.write('\r\u001b[K');
    this.#isShown = false;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.clear();
  }
}
