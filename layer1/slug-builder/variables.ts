/**
 * What do the variables of a Dockerfile stand for, as far as it says so itself? What an image sets that a stage begins with
 * others have to say. Words are read as the engine and BuildKit read them. Pure.
 */
import { FlynnError } from '@flynn/kit/errors';
import type { Instruction } from './instructions.ts';

const unknown = Symbol('unknown');
type Value = string | typeof unknown;

/** Undefined: nothing sets it. */
export type Variables = (name: string) => Value | undefined;

export type Expanded = {
  text: string;
  /** Variables in it whose value an image may set. */
  unknown: string[];
  /** Variables in it that nothing sets: they are empty. */
  unset: string[];
};

const deepest = 20;
/** Of all that variables stand for in one text: each may be made of others many times. */
const mostChars = 1024 ** 2;

/**
 * `quotes`: whether they enclose what they stand around, as in a word, or are characters as any, as in a here-document. `invalid`
 * for what stands for nothing.
 */
export function expand(text: string, valueOf: Variables, { quotes }: { quotes: 'enclose' | 'stay' }): Expanded {
  return new Reader(text, valueOf, quotes === 'enclose').read();
}

class Reader {
  readonly #text: string;
  readonly #valueOf: Variables;
  readonly #doQuotesEnclose: boolean;
  #at = 0;
  #depth = 0;
  #chars = 0;
  #unknown = new Set<string>();
  #unset = new Set<string>();

  constructor(text: string, valueOf: Variables, doQuotesEnclose: boolean) {
    this.#text = text;
    this.#valueOf = valueOf;
    this.#doQuotesEnclose = doQuotesEnclose;
  }

  read(): Expanded {
    const text = this.#until(undefined);
    return { text, unknown: [...this.#unknown], unset: [...this.#unset] };
  }

  #next(): string {
    const one = this.#text.charAt(this.#at);
    this.#at += 1;
    return one;
  }

  #until(stop: string | undefined): string {
    const parts: string[] = [];
    while (this.#at < this.#text.length) {
      const plain = /[^\\$'"}]+/y;
      plain.lastIndex = this.#at;
      const [run] = plain.exec(this.#text) ?? [];
      if (run !== undefined) {
        parts.push(run);
        this.#at += run.length;
        continue;
      }
      const one = this.#next();
      if (one === stop) return parts.join('');
      if (one === '$') parts.push(this.#dollar());
      else if (one === '\\') parts.push(this.#next());
      else if (this.#doQuotesEnclose && one === "'") parts.push(this.#single());
      else if (this.#doQuotesEnclose && one === '"') parts.push(this.#double());
      else parts.push(one);
    }
    if (stop !== undefined) throw notUnderstood(this.#text, 'a { has no }');
    return parts.join('');
  }

  #single(): string {
    const end = this.#text.indexOf("'", this.#at);
    if (end < 0) throw notUnderstood(this.#text, 'a quote has no end');
    const inside = this.#text.slice(this.#at, end);
    this.#at = end + 1;
    return inside;
  }

  #double(): string {
    let inside = '';
    while (this.#at < this.#text.length) {
      const one = this.#next();
      if (one === '"') return inside;
      if (one === '$') inside += this.#dollar();
      else if (one === '\\' && /["$\\]/.test(this.#text.charAt(this.#at))) inside += this.#next();
      else inside += one;
    }
    throw notUnderstood(this.#text, 'a quote has no end');
  }

  #name(): string {
    const name = /\d+|[@*#?$!-]|[\p{L}_][\p{L}\p{Nd}_]*/uy;
    name.lastIndex = this.#at;
    const [found = ''] = name.exec(this.#text) ?? [];
    this.#at += found.length;
    return found;
  }

  /** Behind the $. */
  #dollar(): string {
    if (this.#text.charAt(this.#at) !== '{') {
      const name = this.#name();
      return name === '' ? '$' : this.#told(name);
    }
    const begin = this.#at - 1;
    this.#at += 1;
    const name = this.#name();
    const rest = /}|:?[-+]/y;
    rest.lastIndex = this.#at;
    const [how = ''] = rest.exec(this.#text) ?? [];
    if (name === '' || how === '')
      throw notUnderstood(
        this.#text.slice(begin, begin + 30),
        'it is none of ${NAME}, ${NAME:-other} and ${NAME:+other}',
      );
    this.#at += how.length;
    return how === '}' ? this.#told(name) : this.#chosen(name, how);
  }

  #chosen(name: string, how: string): string {
    if (this.#depth === deepest) throw notUnderstood('${…${…}…}', `there are more than ${deepest} in each other`);
    const [unknownBefore, unsetBefore] = [new Set(this.#unknown), new Set(this.#unset)];
    this.#depth += 1;
    const other = this.#until('}');
    this.#depth -= 1;
    const value = this.#valueOf(name);
    const isThere = value !== undefined && !(how.startsWith(':') && value === '');
    const isOther = isThere === how.endsWith('+');
    if (isOther && value !== unknown) return other;
    // What is not taken need not be known.
    [this.#unknown, this.#unset] = [unknownBefore, unsetBefore];
    if (value === unknown) this.#unknown.add(name);
    return typeof value === 'string' && isThere && how.endsWith('-') ? this.#counted(value) : '';
  }

  #told(name: string): string {
    const value = this.#valueOf(name);
    if (typeof value === 'string') return this.#counted(value);
    (value === undefined ? this.#unset : this.#unknown).add(name);
    return '';
  }

  #counted(value: string): string {
    this.#chars += value.length;
    if (this.#chars > mostChars)
      throw notUnderstood(this.#text, 'what its variables stand for is larger than a megabyte');
    return value;
  }
}

function notUnderstood(text: string, why: string): FlynnError {
  const shown = text.length > 60 ? `${text.slice(0, 60)}…` : text;
  return new FlynnError('invalid', `${JSON.stringify(shown)} is not understood: ${why}`);
}

type Stage = {
  env: Map<string, Value>;
  args: Map<string, Value>;
  /** No image sets anything else. */
  isAll: boolean;
};

/** By the name that FROM has for it: what an image sets. */
export type ImageEnvs = ReadonlyMap<string, Readonly<Record<string, string>>>;

function ofImage(env: Readonly<Record<string, string>> | undefined): Stage {
  return { env: new Map(Object.entries(env ?? {})), args: new Map(), isAll: env !== undefined };
}

/** Calls `visit` for each instruction with what variables stand for there: while it runs, and no longer. */
export function walkVariables(
  instructions: readonly Instruction[],
  { given, bases }: { given: Readonly<Record<string, string>>; bases: ImageEnvs },
  visit: (instruction: Instruction, valueOf: Variables) => void,
): void {
  const globals: Stage = { env: new Map(), args: new Map(), isAll: true };
  const stages = new Map<string, Stage>([['scratch', globals]]);
  let stage = globals;
  for (const instruction of instructions) {
    const { name, text } = instruction;
    if (name === 'FROM') {
      const [, base = '', as] = /^FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?/i.exec(text) ?? [];
      const below = stages.get(base.toLowerCase()) ?? ofImage(bases.get(base));
      stage = { env: new Map(below.env), args: new Map(), isAll: below.isAll };
      if (as !== undefined) stages.set(as.toLowerCase(), stage);
    } else if (name === 'ENV') setAll(stage, pairsOf(text));
    else if (name === 'ARG') {
      for (const [key, value] of pairsOf(text)) declare({ stage, globals, given }, key, value);
    }
    visit(instruction, valuesOf(stage));
  }
}

function valuesOf({ env, args, isAll }: Stage): Variables {
  // What is no name of a variable no image can set.
  return (name) => env.get(name) ?? args.get(name) ?? (isAll || !/^[\p{L}_]/u.test(name) ? undefined : unknown);
}

/** Each means what stood before the instruction. */
function setAll(stage: Stage, pairs: readonly [string, string | undefined][]): void {
  const values = pairs.map(([key, value = '']) => [key, valueIn(stage, value)] as const);
  for (const [key, value] of values) stage.env.set(key, value);
}

function declare(
  { stage, globals, given }: { stage: Stage; globals: Stage; given: Readonly<Record<string, string>> },
  key: string,
  value: string | undefined,
): void {
  const told = given[key] ?? (value === undefined ? globals.args.get(key) : valueIn(stage, value));
  if (told !== undefined) stage.args.set(key, told);
}

function valueIn(stage: Stage, text: string): Value {
  try {
    const { text: value, unknown: others } = expand(text, valuesOf(stage), { quotes: 'enclose' });
    return others.length > 0 ? unknown : value;
  } catch {
    // The engine says what is wrong with it, or knows more than this does.
    return unknown;
  }
}

/** Of ARG and ENV, also of the form that gives one variable all of the line. */
export function pairsOf(text: string): [string, string | undefined][] {
  const [, keyword = '', rest = ''] = /^(\w+)\s+([^]*)$/.exec(text) ?? [];
  const words = rest.match(/(?:\\[^]|"(?:\\[^]|[^"\\])*"|'[^']*'|\S)+/g) ?? [];
  if (keyword.toUpperCase() === 'ENV' && !(words[0]?.includes('=') ?? false)) {
    const [, key = '', value = ''] = /^(\S+)\s+([^]*)$/.exec(rest) ?? [];
    return key === '' ? [] : [[key, value]];
  }
  return words.map((word) => {
    const [key = '', value] = word.split(/=(.*)/s);
    return [key, value];
  });
}
