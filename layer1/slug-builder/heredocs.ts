/**
 * Which here-documents of RUN can be said in one line? BuildKit hands what is in them to the step's shell; the engine's own builder
 * reads no line below an instruction. Those of COPY and ADD are taken out. Pure.
 */
import { type CopiedDocument, openedBy, readDocuments } from './copied-documents.ts';
import { type Instruction, instructionFrom, instructionHead } from './instructions.ts';

/** Those of a COPY or an ADD, by its first line. */
export type CopiedDocuments = ReadonlyMap<number, readonly CopiedDocument[]>;

export type Unfolded = {
  /** Each other line is where it was. */
  dockerfile: string;
  /** What was put into one line, for people. */
  notes: string[];
  /** What was in the lines below a COPY or an ADD, which are empty now. */
  documents: CopiedDocuments;
};

/** The same without those that one line can say exactly, and without those of COPY and ADD; the others stay. */
export function withoutHeredocs(dockerfile: string): Unfolded {
  const lines = dockerfile.split('\n');
  const notes: string[] = [];
  const documents = new Map<number, readonly CopiedDocument[]>();
  const copied: [from: number, end: number][] = [];
  const unfoldable: { instruction: Instruction; heredoc: Heredoc; end: number }[] = [];
  let isUnderstood = true;
  for (let place = 0; ;) {
    const instruction = instructionFrom(lines, place);
    if (instruction === undefined) break;
    place = instruction.lastLine;
    if (instruction.name === 'SHELL') isUnderstood &&= isPosix(instruction.text);
    const opened = openedBy(instruction);
    if (opened.length > 0) {
      const read = readDocuments(opened, lines, place);
      if (read === undefined) break;
      documents.set(instruction.firstLine, read.documents);
      copied.push([place, read.end]);
      place = read.end;
      continue;
    }
    const heredoc = heredocIn(instruction);
    if (heredoc === undefined) continue;
    const end = endOf(heredoc, lines, place);
    if (end === undefined) break;
    unfoldable.push({ instruction, heredoc, end });
    place = end + 1;
  }
  for (const [from, below] of copied) lines.fill('', from, below);
  if (!isUnderstood) return { dockerfile: lines.join('\n'), notes, documents };
  for (const { instruction, heredoc, end } of unfoldable) {
    const { firstLine, lastLine } = instruction;
    const line = unfolded(instruction, heredoc, lines.slice(lastLine, end));
    if (line === undefined) continue;
    lines.fill('', firstLine - 1, end + 1);
    lines[firstLine - 1] = line;
    notes.push(`line ${firstLine}: RUN <<${heredoc.name} goes to the shell of the step as one line`);
  }
  return { dockerfile: lines.join('\n'), notes, documents };
}

/** Shortened as the host agent does it with failures (`build-progress.ts`). */
const made = /eval "\$\(printf %b '([^']*?)(?: \[… \d+ more …\] ([^']*))?' \|\| echo exit 1\)"/;

/**
 * What the engine says of a step, with the place of the here-document instead of the line that was made of it. That may be
 * shortened in its middle; where it may have been made of several, it stays.
 */
export function withPlaces(said: string, dockerfile: string): string {
  const [whole, start = '', end] = made.exec(said) ?? [];
  if (whole === undefined) return said;
  const isMade = (line: string): boolean =>
    end === undefined
      ? line.endsWith(whole)
      : line.includes(`eval "$(printf %b '${start}`) && line.endsWith(`${end}' || echo exit 1)"`);
  const [place, ...others] = dockerfile.split('\n').flatMap((line, at) => (isMade(line) ? [at + 1] : []));
  if (place === undefined || others.length > 0) return said;
  return said.replace(whole, () => `the here-document of line ${place}`);
}

type Heredoc = { name: string; isIndented: boolean; isAlone: boolean };

/** The first of them. `isAlone`: it is the whole command. */
function heredocIn({ name, text }: Instruction): Heredoc | undefined {
  if (name !== 'RUN') return undefined;
  const first = /(?<=\s)<<(-?)(["']?)([A-Za-z_]\w*)\2(?=\s|$)/.exec(bareOf(text));
  if (first === null) return undefined;
  const [whole, dash = '', , word = ''] = first;
  const command = text.slice(instructionHead.exec(text)?.[0].length ?? 0).trim();
  return { name: word, isIndented: dash !== '', isAlone: command === whole };
}

/** The word that ends the first of them: quotes hide one, but for its own. */
export function heredocOf(text: string): string | undefined {
  return /(?:^|\s)\d*<<-?(["']?)([A-Za-z_]\w*)\1(?=[\s;|&>]|$)/.exec(bareOf(text))?.[2];
}

function bareOf(text: string): string {
  // What is escaped goes first, and is looked at once: else each of many quotes that are none would be looked for to the end.
  return text.replace(/\\[^]|(?<!<<-?)(["'])(?:\\[^]|(?!\1)[^\\])*\1/g, (part) =>
    part === '\\\n' ? ' ' : part.startsWith('\\') ? 'x' : '""',
  );
}

function endOf({ name, isIndented }: Heredoc, lines: readonly string[], from: number): number | undefined {
  for (let at = from; at < lines.length; at += 1) {
    const line = (lines[at] ?? '').replace(/\r$/, '');
    if ((isIndented ? line.replace(/^\t+/, '') : line) === name) return at;
  }
  return undefined;
}

/** Longer lines no engine reads. */
export const mostLineBytes = 60_000;

/** Undefined where one line cannot say it, or would be too long. */
function unfolded({ text }: Instruction, heredoc: Heredoc, body: readonly string[]): string | undefined {
  const head = instructionHead.exec(text)?.[0] ?? 'RUN';
  const command = text.slice(head.length).trim();
  const isOnly = bareOf(text).split('<<').length === 2;
  if (!isOnly || command.startsWith('[')) return undefined;
  const content = body.map((line) => `${line}\n`).join('');
  // The file itself is run.
  if (heredoc.isAlone && content.startsWith('#!')) return undefined;
  const script = heredoc.isAlone
    ? heredoc.isIndented
      ? content.replace(/^\t+/gm, '')
      : content
    : `${command}\n${content}${heredoc.name}\n`;
  // Neither a shell nor the engine sees anything in what is in quotes; the comment keeps the end from being trimmed.
  const line = `${head} eval "$(printf %b '${octal(`${script}#`)}' || echo exit 1)"`;
  return Buffer.byteLength(line) > mostLineBytes ? undefined : line;
}

/** As `printf %b` reads it: neither a shell nor the engine sees anything in it that stands in single quotes. */
export function octal(text: string): string {
  return text
    .replace(/[\\'"$`<\r\0]/g, (one) => `\\0${one.charCodeAt(0).toString(8).padStart(3, '0')}`)
    .replaceAll('\n', String.raw`\n`);
}

const shells: ReadonlySet<string> = new Set(['sh', 'ash', 'dash', 'bash', 'ksh', 'zsh']);

/** Whether what SHELL names takes the commands of a step as ours do. */
function isPosix(instruction: string): boolean {
  const [, list = ''] = /^SHELL\s+(\[[^]*\])$/i.exec(instruction) ?? [];
  const words = [...list.matchAll(/"([^"\\]*)"/g)].map(([, word = '']) => word);
  return shells.has(words[0]?.split('/').at(-1) ?? '') && /^-\w*c$/.test(words.at(-1) ?? '');
}
