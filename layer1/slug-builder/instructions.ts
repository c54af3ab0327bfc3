/**
 * Which instructions does a Dockerfile have? Read as the engine's parser reads them (BuildKit's `frontend/dockerfile/parser`, of
 * which each version of the engine has another); what versions may read in two ways is refused by `checkReading`. Pure.
 */
import { FlynnError } from '@flynn/kit/errors';

export type Instruction = {
  /** In capitals; empty where no engine knows one. */
  name: string;
  text: string;
  isWhole: boolean;
  /** From 1 on. */
  firstLine: number;
  lastLine: number;
};

/** What Go's `unicode.IsSpace` knows: it is not what a regular expression does here. */
const space = String.raw`[\t\v\f\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]`;
const aSpace = new RegExp(space);
const nothing = new RegExp(`^${space}*(?:#|$)`);
/** What two backslashes end goes on nowhere: so it is since engines of 20.10. */
const continues = /(?<!\\)\\[ \t]*$/;

/** Lines that continue put together, comments left out. */
export function instructionsOf(dockerfile: string): Instruction[] {
  const lines = dockerfile.split('\n');
  const found: Instruction[] = [];
  for (let place = 0; ;) {
    const next = instructionFrom(lines, place);
    if (next === undefined) return found;
    found.push(next);
    place = next.lastLine;
  }
}

/** The first that begins at this place or below it. */
export function instructionFrom(lines: readonly string[], place: number): Instruction | undefined {
  let open: { parts: string[]; firstLine: number } | undefined;
  for (let at = place; at < lines.length; at += 1) {
    const line = plainLine(lines[at] ?? '', at);
    if (nothing.test(line)) continue;
    const { parts, firstLine } = open ?? { parts: [], firstLine: at + 1 };
    parts.push(line.replace(continues, ''));
    if (!continues.test(line))
      return made(parts.join(''), { isWhole: open === undefined, firstLine, lastLine: at + 1 });
    open = { parts, firstLine };
  }
  return open && made(open.parts.join(''), { isWhole: false, firstLine: open.firstLine, lastLine: lines.length });
}

function plainLine(line: string, at: number): string {
  return (at === 0 ? line.replace(/^\uFEFF/, '') : line).replace(/\r$/, '');
}

function made(given: string, more: Pick<Instruction, 'isWhole' | 'firstLine' | 'lastLine'>): Instruction {
  const text = trimmed(given);
  return { name: (/^[A-Za-z]+(?=[ \t]|$)/.exec(text)?.[0] ?? '').toUpperCase(), text, ...more };
}

/** In a time that grows as the text does, as an expression for its end would not. */
function trimmed(text: string): string {
  let [from, end] = [0, text.length];
  while (from < end && aSpace.test(text.charAt(from))) from += 1;
  while (end > from && aSpace.test(text.charAt(end - 1))) end -= 1;
  return text.slice(from, end);
}

/** An instruction's name and flags as people write them, over the lines it goes on over. What the engine gets `flagsOf` reads. */
export const instructionHead = /^\s*\w+(?:(?:[ \t]|\\[ \t]*\r?\n)+--[\w-]+(?:=[^ \t\r\n]*)?)*/;

const known: ReadonlySet<string> = new Set([
  'ADD',
  'ARG',
  'CMD',
  'COPY',
  'ENTRYPOINT',
  'ENV',
  'EXPOSE',
  'FROM',
  'HEALTHCHECK',
  'LABEL',
  'MAINTAINER',
  'ONBUILD',
  'RUN',
  'SHELL',
  'STOPSIGNAL',
  'USER',
  'VOLUME',
  'WORKDIR',
]);

/** `invalid` for what one engine may read as another instruction, or as more or fewer of them, than the next. */
export function checkReading({ name, text, firstLine }: Instruction): void {
  const wrong = (why: string): FlynnError => refusal(`line ${firstLine}: ${why}`);
  if (!known.has(name)) throw wrong(`unknown instruction: ${text.slice(0, 60).split(/\s/)[0]?.toWellFormed() ?? ''}`);
  if (continues.test(text))
    throw wrong('a space that is none to all engines follows the backslash at its end: take it out');
  // A form feed is a space to one part of an engine and none to another.
  // eslint-disable-next-line no-control-regex
  if (/^(?:FROM|COPY|ADD)$/.test(name) && /[\0-\u0008\u000b-\u001f]/.test(text))
    throw wrong('there are control characters in it: take them out');
}

const mostFlagChars = 4_000;

export type Flag = { name: string; value: string };

const allowed: Readonly<Record<string, readonly string[]>> = {
  FROM: ['platform'],
  COPY: ['from', 'chown', 'chmod'],
  ADD: ['chown', 'chmod'],
};

/**
 * Of FROM, COPY and ADD: their flags without quotes and backslashes, as the engine takes them, and what stands behind them.
 * `invalid` for those that are none of the allowed, or may be read in two ways.
 */
export function flagsOf({ name, text, firstLine }: Instruction): { flags: Flag[]; rest: string } {
  const wrong = (why: string): FlynnError => refusal(`line ${firstLine}: ${name} ${why}`);
  const flags: Flag[] = [];
  let rest = text.slice(name.length).replace(/^[ \t]+/, '');
  for (;;) {
    const [raw = ''] =
      /^(?:\\[^]|"(?:\\[^]|[^"\\])*"|'(?:\\[^]|[^'\\])*'|[^ \t\\"'])*/.exec(rest.slice(0, mostFlagChars)) ?? [];
    const word = raw.replace(/\\([^])|["']/g, '$1');
    if (/^[\s\u0085]/.test(rest)) throw wrong('has a space in it that is none to all engines: write a plain one');
    if (!word.startsWith('--') || !rest.startsWith('--')) return { flags, rest };
    const shown = JSON.stringify(raw.slice(0, 60)).slice(1, -1);
    const [, flag = '', value = ''] = /^--([a-z-]+)=([!-~]*)$/.exec(word) ?? [];
    if (flag === '' || /["'\\]/.test(value))
      throw wrong(`${shown} is not understood: flags are written --NAME=VALUE, and the rest behind a space`);
    if (!(allowed[name]?.includes(flag) ?? false)) throw wrong(`--${flag} is unknown: take it out`);
    if (flags.some((one) => one.name === flag)) throw wrong(`--${flag} is there twice`);
    flags.push({ name: flag, value });
    rest = rest.slice(raw.length);
    if (!/^[ \t]/.test(rest))
      throw wrong(`${shown} is not understood: a quote in it has no end, or nothing follows it`);
    rest = rest.replace(/^[ \t]+/, '');
  }
}

/** In one line, with these flags. */
export function withFlags({ name, text }: Instruction, flags: readonly Flag[], rest: string): string {
  return [text.slice(0, name.length), ...flags.map(written), rest].join(' ');
}

export function written({ name, value }: Flag): string {
  return `--${name}=${value}`;
}

export function refusal(why: string): FlynnError {
  return new FlynnError('invalid', `The Dockerfile cannot be built here: ${why}.`);
}
