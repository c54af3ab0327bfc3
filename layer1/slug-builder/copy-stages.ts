/**
 * How does the engine's own builder make what COPY and ADD do with --chmod and here-documents, and ADD with addresses? It knows
 * neither of the first, and is not to ask for the last. A stage before the one that has the instruction prepares the files, with
 * a shell that we know, and COPY --from takes them from there: what is copied is a step of the image that is made, known by its
 * content and modes, and nothing else of it is in that image. Pure.
 */
import { FlynnError } from '@flynn/kit/errors';
import { type Fetching, isAddress } from './added-addresses.ts';
import { type CopiedDocument, isOpening } from './copied-documents.ts';
import { type Source, checkMode, copiesOf } from './copied-files.ts';
import { checkFinished, platformArgs } from './dockerfile.ts';
import { modesOf, placeOf, writing } from './document-steps.ts';
import type { CopiedDocuments } from './heredocs.ts';
import { type Flag, type Instruction, flagsOf, instructionsOf, written as writtenFlag } from './instructions.ts';
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
    const isAdded = name === 'ADD' && text.slice(0, text.lastIndexOf(' ')).includes('$');
    const isPrepared = isAdded || (/^(?:COPY|ADD)$/.test(name) && (prepared.length > 0 || /\s--chmod=/.test(text)));
    if (!isPrepared || base === '' || base === 'scratch') continue;
    if (hasVariables(text, prepared)) wanted.add(base);
  }
  return [...wanted];
}

function hasVariables(text: string, documents: readonly CopiedDocument[]): boolean {
  return text.includes('$') || documents.some(({ isExpanded, content }) => isExpanded && content.includes('$'));
}

export type CopyStages = {
  documents: CopiedDocuments;
  /** What the engine is given. */
  args: Readonly<Record<string, string>>;
  bases: ImageEnvs;
  fetching?: Fetching;
  /** An instruction of which no step of a build without it is a step of this. */
  mark?: string;
};

/** `invalid` for what the engine cannot make, by its line. */
export function withCopyStages(
  dockerfile: string,
  { documents, args, bases, fetching = { build: '', proxies: {} }, mark }: CopyStages,
): Staged {
  const instructions = instructionsOf(dockerfile);
  const made: Made[] = [];
  const notes: string[] = [];
  let stage = -1;
  walkVariables(instructions, { given: args, bases }, (instruction, valueOf) => {
    if (instruction.name === 'FROM') stage += 1;
    if (!/^(?:COPY|ADD)$/.test(instruction.name)) return;
    const read = flagsOf(instruction);
    try {
      const one = madeFor(instruction, documents.get(instruction.firstLine) ?? [], { ...read, valueOf, fetching });
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
  const assembled = withMadeStages(dockerfile, instructions, { made, mark });
  checkFinished(assembled.dockerfile, assembled.lineOf);
  return { ...assembled, notes };
}

function shortened(text: string): string {
  return text.length > 1_000 ? `${text.slice(0, 1_000)}…`.toWellFormed() : text;
}

/** What `flagsOf` read of one, and what is known where it stands. */
type Reading = { flags: readonly Flag[]; rest: string; valueOf: Variables; fetching: Fetching };

/** Undefined for what the engine makes as it is. */
function madeFor(
  instruction: Instruction,
  documents: readonly CopiedDocument[],
  reading: Reading,
): { made: Omit<Made, 'stage'>; notes: string[] } | undefined {
  const { name, text } = instruction;
  const { flags, rest, valueOf, fetching } = reading;
  const flagged = (flag: string): string | undefined => flags.find((one) => one.name === flag)?.value;
  const chmod = flagged('chmod');
  if (documents.length === 0 && chmod === undefined) {
    if (name !== 'ADD') return undefined;
    const made = addedOf(instruction, reading);
    return made && { made, notes: [] };
  }
  if (chmod === '') throw problem('--chmod needs a mode: --chmod=755');
  const from = flagged('from');
  const value = (word: string, what: string): string => known(expand(word, valueOf, { quotes: 'enclose' }), what);
  const words = wordsOf(rest);
  const destination = words.pop();
  if (destination === undefined || words.length === 0) throw problem('it names what is copied, and where to');
  const sources = words
    .filter((word) => documents.length === 0 || !isOpening(word))
    .map((word) => {
      const path = value(word, word);
      return { path, word: word.includes('$') ? word : path };
    });
  const mode = chmod === undefined ? undefined : checkMode(value(chmod, `--chmod=${chmod}`), chmod);
  const files = copiesOf(sources, { isAdd: name === 'ADD', destination, fetching });
  const read = documents.map((document) => contentOf(document, valueOf));
  const notes = [
    `${name}${documents.map((document) => ` <<${document.name}`).join('')}${chmod === undefined ? '' : ` --chmod=${chmod}`} is prepared in a stage of its own, ${preparing}`,
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
  const kept = flags.filter((flag) => flag.name !== 'chmod' && flag.name !== 'from');
  const places = [...files.places, ...read.map((document) => placeOf(document.name))];
  const taking = (stage: string): string[] => [
    written('COPY', [{ name: 'from', value: stage }, ...kept], [...places, destination]),
  ];
  return { made: { instruction, from, lines, taking, hasVariables: hasVariables(text, documents) }, notes };
}

/** Words of an ADD that the engine can take for nothing but files. */
const plainWord = /^(?!https?:)[!#%&(-Z\]-~][!#%&(-[\]-~]*$/i;

/**
 * An ADD of files and addresses: what lies behind addresses is prepared. Of files the engine is told where they are, as which
 * of its words are addresses it is not to find for itself. Undefined where it can find none.
 */
function addedOf(
  instruction: Instruction,
  { flags, rest, valueOf, fetching }: Reading,
): Omit<Made, 'stage'> | undefined {
  const { text } = instruction;
  const words = wordsOf(rest);
  if (words.length > 1 && words.slice(0, -1).every((word) => plainWord.test(word))) return undefined;
  const destination = words.pop();
  if (destination === undefined || words.length === 0) throw problem('it names what is copied, and where to');
  const groups: { addresses: Source[]; files: string[] }[] = [];
  for (const word of words) {
    const { text: path, unknown } = expand(word, valueOf, { quotes: 'enclose' });
    const isThere = unknown.length === 0 && isAddress(path);
    // What only the image says is a file: no address begins so.
    const file = unknown.length > 0 ? `/${word}` : path.replace(/[\\$"']/g, '\\$&');
    const last = groups.at(-1);
    if (last === undefined || (isThere ? last.files : last.addresses).length > 0)
      groups.push({ addresses: [], files: [] });
    if (isThere) groups.at(-1)?.addresses.push({ path, word: word.includes('$') ? word : path });
    else groups.at(-1)?.files.push(file);
  }
  if (groups.length > 1 && !/\/["']?$|\$/.test(destination))
    throw problem('it names several files: where to is a folder then, which ends in /');
  const addresses = groups.flatMap((group) => group.addresses);
  const copies = copiesOf(addresses, { isAdd: true, destination, fetching });
  const places = [...copies.places];
  const taking = (stage: string): string[] =>
    groups.map((group) =>
      group.files.length > 0
        ? written('ADD', flags, [...group.files, destination])
        : written(
            'COPY',
            [{ name: 'from', value: stage }, ...flags],
            [...places.splice(0, group.addresses.length), destination],
          ),
    );
  const lines = addresses.length === 0 ? undefined : () => copies.lines('');
  return { instruction, from: undefined, lines, taking, hasVariables: hasVariables(text, []) };
}

function written(name: string, flags: readonly Flag[], words: readonly string[]): string {
  return [name, ...flags.map(writtenFlag), JSON.stringify(words)].join(' ');
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
  return text === '' ? [] : text.split(/[\t ]+/);
}

/** The mask would take part in modes that say not whose they are. */
function finishing(checks: readonly string[], setting: readonly string[]): string[] {
  const commands = [...checks, ...(setting.length === 0 ? [] : ['umask 0', ...setting])];
  return commands.length === 0 ? [] : [`RUN ${commands.join(' && ')}`];
}

function problem(why: string): FlynnError {
  return new FlynnError('invalid', why);
}
