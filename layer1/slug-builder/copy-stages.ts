/**
 * How does the engine's own builder make what COPY and ADD do with --chmod and here-documents? It knows neither. A stage before the
 * one that has the instruction prepares the files, with a shell that we know, and COPY --from takes them from there: what is copied
 * is a step of the image that is made, known by its content and modes, and nothing else of it is in that image. Pure.
 */
import { FlynnError } from '@flynn/kit/errors';
import { BuildWords } from './build-words.ts';
import { type CopiedDocument, isOpening } from './copied-documents.ts';
import { checkMode, copiesOf } from './copied-files.ts';
import { type Instruction, instructionHead, instructionsOf, platformArgs } from './dockerfile.ts';
import { modesOf, placeOf, writing } from './document-steps.ts';
import type { CopiedDocuments } from './heredocs.ts';
import { type Assembled, type Made, preparing, withMadeStages } from './made-stages.ts';
import { type ImageEnvs, type Variables, expand, walkVariables } from './variables.ts';

export type Staged = Assembled & { notes: string[] };

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
    if (hasVariables(text, prepared)) wanted.add(base);
  }
  return [...wanted];
}

function hasVariables(text: string, documents: readonly CopiedDocument[]): boolean {
  return text.includes('$') || documents.some(({ isExpanded, content }) => isExpanded && content.includes('$'));
}

/** `args`: what the engine is given. `invalid` for what it cannot make, by its line. */
export function withCopyStages(
  dockerfile: string,
  { documents, args, bases }: { documents: CopiedDocuments; args: Readonly<Record<string, string>>; bases: ImageEnvs },
): Staged {
  const asIs: Staged = { dockerfile, notes: [], words: () => new BuildWords(new Map(), (line) => line) };
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
  return { ...withMadeStages(dockerfile, instructions, made), notes };
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
  const sources = words
    .filter((word) => documents.length === 0 || !isOpening(word))
    .map((word) => {
      const path = value(word, word);
      return { path, word: word.includes('$') ? word : path };
    });
  const mode = hasChmod ? checkMode(value(chmod, `--chmod=${chmod}`), chmod) : undefined;
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
      mode === undefined ? [] : [...files.setting.map((set) => set(mode)), ...modesOf(read, mode)],
    ),
  ];
  const made = {
    instruction,
    from,
    flags: flags.filter((flag) => !/^--(?:chmod|from)(?:=|$)/.test(flag)),
    lines,
    sources: [...files.places, ...read.map((document) => placeOf(document.name))],
    destination,
    hasVariables: hasVariables(text, documents),
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

/** The mask would take part in modes that say not whose they are. */
function finishing(checks: readonly string[], setting: readonly string[]): string[] {
  const commands = [...checks, ...(setting.length === 0 ? [] : ['umask 0', ...setting])];
  return commands.length === 0 ? [] : [`RUN ${commands.join(' && ')}`];
}

function problem(why: string): FlynnError {
  return new FlynnError('invalid', why);
}
