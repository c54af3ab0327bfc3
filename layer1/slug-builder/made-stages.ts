/** A Dockerfile with the stages that prepare what is copied, and the lines of the one that people wrote. Pure. */
import { BuildWords, type Prepared } from './build-words.ts';
import { type Instruction, instructionHead } from './dockerfile.ts';

/** Has a shell, and what files are prepared with. */
export const preparing = 'flynn/slug-runner';

export type Assembled = {
  dockerfile: string;
  /** For what the engine says of a build of it. */
  words: () => BuildWords;
};

/** What an instruction takes from a stage that is made for it. */
export type Made = {
  /** Of the stage that takes from it, from 0 on. */
  stage: number;
  instruction: Instruction;
  from: string | undefined;
  flags: string[];
  /** Of that stage; `from` is where COPY of it takes files from, or empty. */
  lines: (from: string) => string[];
  sources: string[];
  destination: string;
  hasVariables: boolean;
};

type Called = Made & { called: string };

/** Each stage that is made stands right before the one that takes from it: numbers of stages follow. */
export function withMadeStages(
  dockerfile: string,
  instructions: readonly Instruction[],
  made: readonly Made[],
): Assembled {
  let prefix = 'flynn-copy';
  while (dockerfile.toLowerCase().includes(prefix)) prefix += '-';
  const called = made.map((one, at) => ({ ...one, called: `${prefix}-${at + 1}` }));
  const froms = instructions.filter(({ name }) => name === 'FROM');
  const madeOf = Map.groupBy(called, ({ stage }) => stage);
  let count = 0;
  const places = froms.map((_from, stage) => {
    count += madeOf.get(stage)?.length ?? 0;
    return String(stage + count);
  });
  const numbered = (from: string): string => (/^\d+$/.test(from) ? (places[Number(from)] ?? from) : from);

  const replaced = new Map(called.map((one) => [one.instruction, one]));
  const lines = dockerfile.split('\n');
  for (const instruction of instructions) {
    if (!/^(?:COPY|ADD)$/.test(instruction.name)) continue;
    const { firstLine, lastLine } = instruction;
    const before = lines.slice(firstLine - 1, lastLine);
    const one = replaced.get(instruction);
    lines.splice(
      firstLine - 1,
      before.length,
      ...(one === undefined ? withNumbers(before, numbered) : [takingFrom(one), ...before.slice(1).map(() => '')]),
    );
  }
  const begun = new Map(froms.map(({ firstLine }, stage) => [firstLine, madeOf.get(stage) ?? []]));
  return withStagesIn(lines, begun, numbered);
}

function withNumbers(copy: readonly string[], numbered: (from: string) => string): string[] {
  const ofFlags = (flags: string): string =>
    flags.replace(/(--from=)(\S+)/g, (_all, flag: string, from: string) => flag + numbered(from));
  return copy.join('\n').replace(instructionHead, ofFlags).split('\n');
}

function takingFrom({ called, flags, sources, destination }: Called): string {
  return ['COPY', `--from=${called}`, ...flags, JSON.stringify([...sources, destination])].join(' ');
}

/** `begun`: by the line in which a stage begins, those that are made for it. */
function withStagesIn(
  lines: readonly string[],
  begun: ReadonlyMap<number, readonly Called[]>,
  numbered: (from: string) => string,
): Assembled {
  const written: { line: string; origin: number }[] = [];
  const prepared = new Map<string, Prepared>();
  for (const [at, line] of lines.entries()) {
    for (const { called, from = '', instruction, lines: steps, hasVariables } of begun.get(at + 1) ?? []) {
      const { text, firstLine } = instruction;
      prepared.set(called, { line: firstLine, text, hasVariables });
      for (const step of [`FROM ${preparing} AS ${called}`, ...steps(numbered(from))])
        written.push({ line: step, origin: firstLine });
    }
    written.push({ line, origin: at + 1 });
  }
  const lineOf = (line: string): string => String(written[Number(line) - 1]?.origin ?? line);
  return {
    dockerfile: written.map(({ line }) => line).join('\n'),
    words: () => new BuildWords(prepared, lineOf),
  };
}
