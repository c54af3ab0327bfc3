/** A Dockerfile with the stages that prepare what is copied, and the lines of the one that people wrote. Pure. */
import { BuildWords, type StepWords } from './build-words.ts';
import { type Instruction, flagsOf, instructionsOf, withFlags } from './instructions.ts';

/** Has a shell, and what files are prepared with. */
export const preparing = 'flynn/slug-runner';

export type Assembled = {
  dockerfile: string;
  /** By a line of it, that which people wrote. */
  lineOf: (line: number) => number;
  /** For what the engine says of a build of it. */
  words: () => BuildWords;
};

/** What is there in the place of an instruction, and the stage that is made for it. */
export type Made = {
  /** Of the stage that takes from it, from 0 on. */
  stage: number;
  instruction: Instruction;
  from: string | undefined;
  /** Of that stage; `from` is where COPY of it takes files from, or empty. Undefined: there need not be one. */
  lines: ((from: string) => string[]) | undefined;
  taking: (stage: string) => string[];
  hasVariables: boolean;
};

type Called = Made & { called: string };

/** Each stage that is made stands right before the one that takes from it: numbers of stages follow. `mark` begins each stage. */
export function withMadeStages(
  dockerfile: string,
  instructions: readonly Instruction[],
  { made, mark }: { made: readonly Made[]; mark: string | undefined },
): Assembled {
  let prefix = 'flynn-copy';
  while (dockerfile.toLowerCase().includes(prefix)) prefix += '-';
  const called = made.map((one, at) => ({ ...one, called: `${prefix}-${at + 1}` }));
  const froms = instructions.filter(({ name }) => name === 'FROM');
  const madeOf = Map.groupBy(called, ({ stage }) => stage);
  let count = 0;
  const places = froms.map((_from, stage) => {
    count += madeOf.get(stage)?.filter(({ lines }) => lines !== undefined).length ?? 0;
    return String(stage + count);
  });
  const numbered = (from: string): string => (/^\d+$/.test(from) ? (places[Number(from)] ?? from) : from);

  const replaced = new Map(called.map((one) => [one.instruction, one]));
  const lines: Line[] = dockerfile.split('\n').map((line) => ({ written: [line], words: undefined }));
  for (const instruction of instructions) {
    if (!/^(?:COPY|ADD)$/.test(instruction.name)) continue;
    const { firstLine, lastLine } = instruction;
    const before = lines.slice(firstLine - 1, lastLine).flatMap(({ written }) => written);
    const one = replaced.get(instruction);
    for (let at = 0; at < before.length; at += 1) lines[firstLine - 1 + at] = { written: [''], words: undefined };
    lines[firstLine - 1] =
      one === undefined
        ? { written: withNumbers(instruction, before, numbered), words: undefined }
        : { written: one.taking(one.called), words: wordsOf(one, one.lines === undefined ? 'instruction' : 'taking') };
  }
  const begun = new Map(froms.map(({ firstLine }, stage) => [firstLine, madeOf.get(stage) ?? []]));
  return withStagesIn(lines, begun, { numbered, mark });
}

/** What is in the place of one. */
type Line = { written: string[]; words: StepWords };

function wordsOf({ instruction, hasVariables }: Made, what: 'stage' | 'taking' | 'instruction'): StepWords {
  return { what, line: instruction.firstLine, text: instruction.text, hasVariables };
}

function withNumbers(copy: Instruction, before: string[], numbered: (from: string) => string): string[] {
  const { flags, rest } = flagsOf(copy);
  const other = flags.map(({ name, value }) => ({ name, value: name === 'from' ? numbered(value) : value }));
  return flags.every(({ value }, at) => value === other[at]?.value) ? before : [withFlags(copy, other, rest)];
}

/** `begun`: by the line in which a stage begins, those that are made for it. */
function withStagesIn(
  lines: readonly Line[],
  begun: ReadonlyMap<number, readonly Called[]>,
  { numbered, mark }: { numbered: (from: string) => string; mark: string | undefined },
): Assembled {
  const all: { line: string; origin: number; words: StepWords }[] = [];
  const marking = (origin: number): typeof all => (mark === undefined ? [] : [{ line: mark, origin, words: 'mark' }]);
  for (const [at, { written, words }] of lines.entries()) {
    for (const one of begun.get(at + 1) ?? []) {
      if (one.lines === undefined) continue;
      const origin = one.instruction.firstLine;
      const ofStage = wordsOf(one, 'stage');
      all.push({ line: `FROM ${preparing} AS ${one.called}`, origin, words: ofStage }, ...marking(origin));
      for (const line of one.lines(numbered(one.from ?? ''))) all.push({ line, origin, words: ofStage });
    }
    for (const line of written) all.push({ line, origin: at + 1, words });
    if (begun.has(at + 1)) all.push(...marking(at + 1));
  }
  const dockerfile = all.map(({ line }) => line).join('\n');
  const steps = instructionsOf(dockerfile).map(({ firstLine }) => all[firstLine - 1]?.words);
  const lineOf = (line: number): number => all[line - 1]?.origin ?? line;
  return { dockerfile, lineOf, words: () => new BuildWords(steps, (line) => String(lineOf(Number(line)))) };
}
