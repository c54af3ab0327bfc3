/**
 * How does the engine's own builder make what COPY and ADD do with --chmod and here-documents? It knows neither. A stage before the
 * one that has the instruction prepares the files, with a shell that we know, and COPY --from takes them from there: what is copied
 * is a step of the image that is made, known by its content and modes, and nothing else of it is in that image. Pure.
 */
import { FlynnError } from '@flynn/kit/errors';
import { type CopiedDocument, isOpening } from './copied-documents.ts';
import { checkMode, copiesOf } from './copied-files.ts';
import { type Instruction, instructionHead, instructionsOf, platformArgs } from './dockerfile.ts';
import { type CopiedDocuments, mostLineBytes, octal } from './heredocs.ts';
import { type ImageEnvs, type Variables, expand, walkVariables } from './variables.ts';

/** Has a shell, and what files are prepared with. */
const preparing = 'flynn/slug-runner';

export type Staged = {
  dockerfile: string;
  notes: string[];
  /** What the engine says of it, with the lines that people wrote. */
  withLines: (said: string) => string;
};

type Made = {
  /** Of the stage that takes from it, from 0 on. */
  stage: number;
  instruction: Instruction;
  from: string | undefined;
  flags: string[];
  lines: (from: string) => string[];
  sources: string[];
  destination: string;
};

/** Images that stages begin with which have variables in what is prepared for them. Those of another processor are left out. */
export function basesOfCopies(dockerfile: string, documents: CopiedDocuments): string[] {
  const bases = new Map<string, string>();
  const wanted = new Set<string>();
  let base = '';
  for (const { name, text, firstLine } of instructionsOf(dockerfile)) {
    if (name === 'FROM') {
      const [, flags = '', below = '', as] = /^FROM\s+((?:--\S+\s+)*)(\S+)(?:\s+AS\s+(\S+))?/i.exec(text) ?? [];
      const isOwn = flags === '' || flags.trim() === `--platform=${platformArgs()['TARGETPLATFORM']}`;
      base = isOwn ? (bases.get(below.toLowerCase()) ?? below) : '';
      if (as !== undefined) bases.set(as.toLowerCase(), base);
      continue;
    }
    const prepared = documents.get(firstLine) ?? [];
    const isPrepared = /^(?:COPY|ADD)$/.test(name) && (prepared.length > 0 || /\s--chmod=/.test(text));
    if (!isPrepared || base === '' || base === 'scratch') continue;
    if (text.includes('$') || prepared.some(({ isExpanded, content }) => isExpanded && content.includes('$')))
      wanted.add(base);
  }
  return [...wanted];
}

/** `args`: what the engine is given. `invalid` for what it cannot make, by its line. */
export function withCopyStages(
  dockerfile: string,
  { documents, args, bases }: { documents: CopiedDocuments; args: Readonly<Record<string, string>>; bases: ImageEnvs },
): Staged {
  const asIs: Staged = { dockerfile, notes: [], withLines: (said) => said };
  if (documents.size === 0 && !dockerfile.includes('--chmod')) return asIs;
  const instructions = instructionsOf(dockerfile);
  const made: Made[] = [];
  const notes: string[] = [];
  let stage = -1;
  walkVariables(instructions, { given: args, bases }, (instruction, valueOf) => {
    if (instruction.name === 'FROM') stage += 1;
    if (!/^(?:COPY|ADD)$/.test(instruction.name)) return;
    try {
      const one = madeFor(instruction, documents.get(instruction.firstLine) ?? [], valueOf);
      if (one === undefined) return;
      made.push({ ...one.made, stage });
      notes.push(...one.notes.map((note) => `line ${instruction.firstLine}: ${note}`));
    } catch (error) {
      if (!(error instanceof FlynnError)) throw error;
      throw new FlynnError(
        'invalid',
        `The Dockerfile cannot be built here: line ${instruction.firstLine}: ${instruction.name}: ${shortened(error.message)}.`,
      );
    }
  });
  if (made.length === 0) return asIs;
  return { ...assemble(dockerfile, instructions, made), notes };
}

function shortened(text: string): string {
  return text.length > 1_000 ? `${text.slice(0, 1_000)}…`.toWellFormed() : text;
}

/** Undefined for what the engine makes as it is. */
function madeFor(
  instruction: Instruction,
  documents: readonly CopiedDocument[],
  valueOf: Variables,
): { made: Omit<Made, 'stage'>; notes: string[] } | undefined {
  const { name, text } = instruction;
  const head = instructionHead.exec(text)?.[0] ?? name;
  const flags = head.match(/--[\w-]+(?:=\S*)?/g) ?? [];
  const valuesOf = (flag: string): string[] =>
    flags.filter((one) => one.startsWith(`${flag}=`)).map((one) => one.slice(flag.length + 1));
  const [chmod = '', ...others] = valuesOf('--chmod');
  const hasChmod = flags.some((flag) => /^--chmod(?:=|$)/.test(flag));
  if (documents.length === 0 && !hasChmod) return undefined;
  if (others.length > 0) throw problem('--chmod is there twice');
  if (hasChmod && chmod === '') throw problem('--chmod needs a mode: --chmod=755');
  const [from] = valuesOf('--from');
  if (name === 'ADD' && from !== undefined) throw problem('ADD knows no --from: COPY does');
  const value = (word: string, what: string): string => known(expand(word, valueOf, { quotes: 'enclose' }), what);
  const words = wordsOf(text.slice(head.length).trim());
  const destination = words.pop();
  if (destination === undefined || words.length === 0) throw problem('it names what is copied, and where to');
  const sources = words.filter((word) => documents.length === 0 || !isOpening(word)).map((word) => value(word, word));
  const mode = hasChmod ? checkMode(value(chmod, `--chmod=${chmod}`)) : undefined;
  const files = copiesOf(sources, { isAdd: name === 'ADD' });
  const read = documents.map((document) => contentOf(document, valueOf));
  const notes = [
    `${name}${documents.map((document) => ` <<${document.name}`).join('')}${hasChmod ? ` --chmod=${chmod}` : ''} is prepared in a stage of its own, ${preparing}`,
    ...read.flatMap(({ name: document, unset }) =>
      unset.map(
        (one) =>
          `<<${document}: nothing sets $${one}, which is empty there. If it is meant as it stands: <<"${document}"`,
      ),
    ),
  ];
  const lines = (renamed: string): string[] => [
    ...files.lines(renamed === '' ? '' : `--from=${renamed} `),
    ...writing(read),
    ...finishing(
      files.checks,
      mode === undefined ? [] : [...files.setting.map((set) => set(mode)), ...ofDocuments(read, mode)],
    ),
  ];
  const made = {
    instruction,
    from,
    flags: flags.filter((flag) => !/^--(?:chmod|from)(?:=|$)/.test(flag)),
    lines,
    sources: [...files.places, ...read.map((document) => placeOf(document.name))],
    destination,
  };
  return { made, notes };
}

function contentOf(
  { name, content, isExpanded }: CopiedDocument,
  valueOf: Variables,
): { name: string; content: string; unset: string[] } {
  if (!isExpanded) return { name, content, unset: [] };
  const expanded = expand(content, valueOf, { quotes: 'stay' });
  return { name, content: known(expanded, `<<${name}`), unset: expanded.unset };
}

function known({ text, unknown }: { text: string; unknown: string[] }, what: string): string {
  const [first] = unknown;
  if (first === undefined) return text;
  const quoted = what.startsWith('<<') ? ` If it is meant as it stands: <<"${what.slice(2)}"` : '';
  throw problem(
    `what $${first} is in ${what} only the image says that the stage begins with, or nothing does: write ENV ${first}=… before it${quoted}`,
  );
}

function wordsOf(text: string): string[] {
  if (text.startsWith('[')) {
    try {
      const list: unknown = JSON.parse(text);
      if (Array.isArray(list) && list.every((word) => typeof word === 'string')) return list;
    } catch {
      // The engine takes what is no list as words.
    }
  }
  return text === '' ? [] : text.split(/\s+/);
}

const documentsDir = '/copied/documents';
const placeOf = (document: string): string => `${documentsDir}/${document}`;
/** What else is in a line, with some to spare. */
const mostOfContent = mostLineBytes - 1_000;

/** With one time for all: the same content is the same file. */
function writing(documents: readonly { name: string; content: string }[]): string[] {
  if (documents.length === 0) return [];
  const commands = documents.flatMap(({ name, content }) => [
    ...parts(octal(content)).map((part, at) => `printf %b '${part}' ${at === 0 ? '>' : '>>'} ${placeOf(name)}`),
    `chmod 644 ${placeOf(name)}`,
    `touch -d @0 ${placeOf(name)}`,
  ]);
  return inLines([`mkdir -p ${documentsDir}`, ...commands]);
}

function ofDocuments(documents: readonly { name: string }[], mode: string): string[] {
  return documents.map(({ name }) => `chmod -- ${mode} ${placeOf(name)}`);
}

/** The mask would take part in modes that say not whose they are. */
function finishing(checks: readonly string[], setting: readonly string[]): string[] {
  const commands = [...checks, ...(setting.length === 0 ? [] : ['umask 0', ...setting])];
  return commands.length === 0 ? [] : [`RUN ${commands.join(' && ')}`];
}

/** Never within what stands for one letter. */
function parts(encoded: string): string[] {
  const found: string[] = [];
  let [part, bytes] = ['', 0];
  for (const [one] of encoded.matchAll(/\\0\d{3}|\\n|[^]/gu)) {
    const size = Buffer.byteLength(one);
    if (bytes + size > mostOfContent) {
      found.push(part);
      [part, bytes] = ['', 0];
    }
    part += one;
    bytes += size;
  }
  return [...found, part];
}

function inLines(commands: readonly string[]): string[] {
  const lines: string[] = [];
  for (const command of commands) {
    const joined = `${lines.at(-1) ?? ''} && ${command}`;
    if (lines.length === 0 || Buffer.byteLength(joined) > mostLineBytes) lines.push(`RUN ${command}`);
    else lines[lines.length - 1] = joined;
  }
  return lines;
}

function problem(why: string): FlynnError {
  return new FlynnError('invalid', why);
}

type Called = Made & { called: string };

/** Each stage that is made stands right before the one that takes from it: numbers of stages follow. */
function assemble(
  dockerfile: string,
  instructions: readonly Instruction[],
  made: readonly Made[],
): Pick<Staged, 'dockerfile' | 'withLines'> {
  let prefix = 'flynn-copy';
  while (dockerfile.toLowerCase().includes(prefix)) prefix += '-';
  const called = made.map((one, at) => ({ ...one, called: `${prefix}-${at + 1}` }));
  const froms = instructions.filter(({ name }) => name === 'FROM');
  const madeFor = Map.groupBy(called, ({ stage }) => stage);
  let count = 0;
  const places = froms.map((_from, stage) => {
    count += madeFor.get(stage)?.length ?? 0;
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
  const begun = new Map(froms.map(({ firstLine }, stage) => [firstLine, madeFor.get(stage) ?? []]));
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
): Pick<Staged, 'dockerfile' | 'withLines'> {
  const written: { line: string; origin: number; isMade: boolean }[] = [];
  for (const [at, line] of lines.entries()) {
    for (const { called, from = '', instruction, lines: steps } of begun.get(at + 1) ?? []) {
      for (const step of [`FROM ${preparing} AS ${called}`, ...steps(numbered(from))])
        written.push({ line: step, origin: instruction.firstLine, isMade: true });
    }
    written.push({ line, origin: at + 1, isMade: false });
  }
  const originOf = (line: string): string => String(written[Number(line) - 1]?.origin ?? line);
  const withLines = (said: string): string => {
    // The engine's words may be shortened in their middle.
    const failed = written.filter(
      ({ line, isMade }) => isMade && line.startsWith('RUN ') && said.includes(`-c ${line.slice('RUN '.length, 400)}`),
    );
    if (failed.length === 0)
      return said.replace(
        /(parse error (?:on )?line )(\d+)/i,
        (_all, before: string, line: string) => before + originOf(line),
      );
    const code = / returned a (non-zero code: \d+)/.exec(said)?.[1];
    const places = [...new Set(failed.map(({ origin }) => origin))].join(' or ');
    return `What line ${places} of the Dockerfile copies could not be prepared${code === undefined ? '' : `: ${code}`}`;
  };
  return { dockerfile: written.map(({ line }) => line).join('\n'), withLines };
}
