/** How a command is declared: its own options beside the common ones, and a context that is closed after it. */
import { type Command, Option } from 'commander';
import { nearestOf } from '@flynn/kit/config';
import { Context, type CommonOptions } from '../context.ts';
import type { Io } from '../io.ts';

export type Parent = { program: Command; io: Io; exitWith: (code: number) => void };

/** Without a summary it works but is not in the help. */
type OptionRow<Value> = readonly [flags: string, summary: string, initial?: Value];

/** As commander reads them: an option without its value is `true`. */
type RawOptions = Omit<CommonOptions, 'app'> & { app?: string | true };

/**
 * By the names commander gives them: `--split-stderr` is `splitStderr`, `--no-wait` is `wait`. A list as initial value
 * collects.
 */
type OptionTable<Options> = { readonly [Name in keyof Options]-?: OptionRow<Options[Name]> };

type Declaration<Options extends object> = {
  /** Under another command: `env` of `env set`. */
  under?: Command;
  name: string;
  /** What others call it: the help tells both. */
  alias?: string;
  summary: string;
  arguments?: readonly (readonly [name: string, summary: string])[];
  options?: OptionTable<Options>;
  /** Whole command lines, for its help. */
  examples?: readonly string[];
  /** It tells, and changes nothing: `| head` ends it. Others go on to their end without a reader. */
  onlyTells?: boolean;
  /** From its first argument on everything is an argument. */
  passesThrough?: boolean;
  /** `NAME list` does the same: who looks for it finds it. */
  lists?: boolean;
  /** What `-a` is to this command, if it is another thing than to others. */
  app?: string;
  /** `-a` alone is no app but an option of the command's own. */
  hasBareA?: boolean;
  run: (
    context: Context,
    options: Options & CommonOptions & { isBareA: boolean },
    args: string[],
  ) => Promise<number | void>;
};

/** Every command takes these, before or after its own options. */
export function withCommonOptions(command: Command, options: { hasBareA?: boolean; app?: string } = {}): Command {
  const { app = 'the app (else: $FLYNN_APP, else the git remote)' } = options;
  return command
    .addOption(new Option(options.hasBareA ? '-a, --app [name]' : '-a, --app <name>', app))
    .option('-c, --cluster <name>', 'the cluster (else the default one)')
    .option('--json', 'one JSON value instead of text');
}

/** Declares `flynn NAME`; `run` gets the context, the options and the arguments, and may answer an exit code. */
export function addCommand<Options extends object = object>(
  parent: Parent,
  declaration: Declaration<Options>,
): Command {
  const { under, passesThrough = false, hasBareA = false } = declaration;
  const command = (under ?? parent.program)
    .command(declaration.name)
    .description(declaration.summary)
    .allowExcessArguments(false)
    .passThroughOptions(passesThrough)
    .combineFlagAndOptionalValue(!hasBareA);
  if (declaration.alias !== undefined) command.alias(declaration.alias);
  // What is no subcommand is told as such below, rather than as an argument too many.
  under?.allowExcessArguments(true);
  for (const [name, summary] of declaration.arguments ?? []) command.argument(name, summary);
  addOptions(command, Object.values<OptionRow<unknown>>(declaration.options ?? {}));
  withCommonOptions(command, { hasBareA, ...(declaration.app === undefined ? {} : { app: declaration.app }) });
  const { examples = [] } = declaration;
  if (examples.length > 0) command.addHelpText('after', `\nExamples:\n${examples.map((one) => `  ${one}\n`).join('')}`);
  command.action(async () => {
    if (command.commands.length > 0) assertNoArguments(command);
    const all = command.optsWithGlobals<Options & RawOptions>();
    const own = command.opts<Options & RawOptions>();
    // The option nearest to the command counts.
    const app = [own.app, all.app].find((name) => typeof name === 'string');
    const options = { ...all, ...own, app, isBareA: own.app === true };
    if (declaration.onlyTells === true) parent.io.endWithReader();
    await using context = new Context(parent.io, options);
    let code: number | void;
    try {
      code = await declaration.run(context, options, command.args);
    } catch (error) {
      throw await context.explained(error);
    }
    if (typeof code === 'number') parent.exitWith(code);
    await context.keepPin();
  });
  if (declaration.lists === true) {
    const { options, run } = declaration;
    const own = options === undefined ? {} : { options };
    addCommand<Options>(parent, { under: command, name: 'list', summary: 'the same', ...own, run });
  }
  return command;
}

function addOptions(command: Command, rows: readonly OptionRow<unknown>[]): void {
  for (const [flags, summary, initial] of rows) {
    if (Array.isArray(initial)) {
      const collect = (value: string, before: unknown) => [...(Array.isArray(before) ? before : []), value];
      command.option(flags, summary, collect, []);
    } else if (summary === '') command.addOption(new Option(flags).hideHelp());
    else if (typeof initial === 'string') command.option(flags, summary, initial);
    else command.option(flags, summary);
  }
}

function assertNoArguments(command: Command): void {
  const [unknown] = command.args;
  if (unknown !== undefined) refuseUnknown(command, unknown);
}

/** Of what is no subcommand. */
export function refuseUnknown(command: Command, unknown: string): never {
  const names = command.commands.map((one) => one.name());
  const nearest = nearestOf(unknown, names);
  const where = command.parent === null ? '' : ` of ${command.name()}: it has ${names.join(', ') || 'none'}`;
  const hint = nearest === undefined ? '' : `\n(Did you mean ${nearest}?)`;
  command.error(`error: unknown command '${unknown}'${where}${hint}`, { code: 'commander.unknownCommand' });
}
