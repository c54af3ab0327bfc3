/** What may be typed where, out of how the commands are declared. Pure. */
import { roles } from '@flynn/controller/access/roles';
import type { Argument, Command, Option } from 'commander';

export const shells = ['bash', 'zsh', 'fish'] as const;

/** What a word is: of `text` nobody knows more, `else` is a command line of another program. Or one of these words. */
export type Kind = 'app' | 'cluster' | 'file' | 'text' | 'else' | `=${string}`;

export type Word = Readonly<{ word: string; summary: string }>;

/** One command: `chain` are its names, with spaces between. */
export type Place = Readonly<{
  chain: string;
  /** Other names of its last word. */
  aliases: readonly string[];
  subcommands: readonly Word[];
  /** In their long form. */
  options: readonly Word[];
  /** Of options that take a value, by each way to write them. */
  values: ReadonlyMap<string, Kind>;
  arguments: readonly Readonly<{ kind: Kind; isVariadic: boolean }>[];
}>;

export function placesOf(program: Command): Place[] {
  const [top, ...rest] = placesUnder(program, []);
  if (top === undefined) return rest;
  // "help" is followed by what it helps with.
  const { subcommands } = top;
  return [top, ...rest.map((place) => (place.chain === 'help' ? Object.assign(place, { subcommands }) : place))];
}

function placesUnder(command: Command, chain: readonly string[]): Place[] {
  const options = command.options.filter(({ hidden }) => !hidden);
  const own: Place = {
    chain: chain.join(' '),
    aliases: command.aliases(),
    subcommands: command.commands.map((one) => ({ word: one.name(), summary: firstOf(one.description()) })),
    options: [
      ...options.flatMap(({ long, description }) =>
        typeof long === 'string' ? [{ word: long, summary: firstOf(description) }] : [],
      ),
      { word: '--help', summary: 'what it does and takes' },
    ],
    values: new Map(options.flatMap((option) => waysOf(option).map((way) => [way, kindOfOption(option)] as const))),
    arguments: command.registeredArguments.map((argument) => ({
      kind: kindOfArgument(argument, chain),
      isVariadic: argument.variadic,
    })),
  };
  return [own, ...command.commands.flatMap((one) => placesUnder(one, [...chain, one.name()]))];
}

/** Summaries are a line or two; a list of them has room for the first half. */
function firstOf(summary: string): string {
  return (summary.split(/[;\n]/)[0] ?? '').trim();
}

/** How an option that takes a value is written; with an optional one it may stand alone. */
function waysOf({ long, short, required, optional }: Option): string[] {
  const takes = required || (optional && long === '--app');
  return takes ? [short, long].filter((way) => typeof way === 'string') : [];
}

function kindOfOption({ long, flags }: Option): Kind {
  if (long === '--cluster') return 'cluster';
  const [, value = ''] = /[<[]([^>\]]+)[>\]]/.exec(flags) ?? [];
  return long === '--app' || value === 'app' ? 'app' : kindNamed(value);
}

function kindOfArgument(argument: Argument, chain: readonly string[]): Kind {
  const name = argument.name();
  const [first = ''] = chain;
  if (argument.variadic && (name === 'command' || name === 'args') && first !== 'help') return 'else';
  if (first === 'cluster' && name === 'name' && chain[1] !== 'add') return 'cluster';
  if (first === 'promote' || (first === 'remote' && name === 'name')) return 'app';
  return kindNamed(name);
}

function kindNamed(name: string): Kind {
  if (name === 'file' || name === 'path') return 'file';
  if (name === 'role') return `=${roles.join(' ')}`;
  return name === 'shell' ? `=${shells.join(' ')}` : 'text';
}

/** The ways that lead to each kind, as `CHAIN|-f` and, of arguments, `CHAIN:2`; `*` for any. */
export function waysByKind(places: readonly Place[]): { values: Map<Kind, string[]>; arguments: Map<Kind, string[]> } {
  const values = new Map<Kind, string[]>();
  const given = new Map<Kind, string[]>();
  const add = (to: Map<Kind, string[]>, kind: Kind, way: string) => to.set(kind, [...(to.get(kind) ?? []), way]);
  for (const { chain, values: own, arguments: args } of places) {
    for (const [way, kind] of own) if (!commonWays.has(way)) add(values, kind, `${chain}|${way}`);
    for (const [at, { kind, isVariadic }] of args.entries()) {
      if (kind !== 'text') add(given, kind, `${chain}:${isVariadic ? '*' : at}`);
    }
  }
  return { values, arguments: given };
}

/** Every command has these, and they may stand before it. */
export const commonWays: ReadonlyMap<string, Kind> = new Map([
  ['-a', 'app'],
  ['--app', 'app'],
  ['-c', 'cluster'],
  ['--cluster', 'cluster'],
]);

/** Names that the scripts ask for, by `flynn completion apps`, as somebody presses Tab. */
export type Askable = 'apps' | 'clusters';
