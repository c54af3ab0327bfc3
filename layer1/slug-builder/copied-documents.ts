/** Which here-documents does a COPY or an ADD have, and what is in them? As BuildKit reads them. Pure. */
import { type Instruction, instructionHead } from './instructions.ts';

export type CopiedDocument = {
  /** What the file is called, unless the destination says it. */
  name: string;
  /** Variables in it mean their values, and a backslash what follows it. */
  isExpanded: boolean;
  content: string;
};

type Opened = { name: string; isExpanded: boolean; isIndented: boolean };

const opening = /^\d*<<(-?)(["']?)([\w.@%+,:=-]+)\2$/;

/** Whether a word of them opens one. */
export function isOpening(word: string): boolean {
  return opening.test(word) && !/<<-?["']?\.{1,2}["']?$/.test(word);
}

/** In their order. */
export function openedBy({ name, text }: Instruction): Opened[] {
  if (!/^(?:COPY|ADD)$/.test(name) || !text.includes('<<')) return [];
  const rest = text.slice(instructionHead.exec(text)?.[0].length ?? 0).trim();
  if (rest.startsWith('[')) return [];
  return rest
    .split(/[\t ]+/)
    .filter(isOpening)
    .map((word) => {
      const [, dash = '', quote = '', name = ''] = opening.exec(word) ?? [];
      return { name, isExpanded: quote === '', isIndented: dash !== '' };
    });
}

/** From the line below the instruction on; `end` is the line below the last of them. Undefined where one has no end. */
export function readDocuments(
  opened: readonly Opened[],
  lines: readonly string[],
  from: number,
): { documents: CopiedDocument[]; end: number } | undefined {
  let at = from;
  const documents: CopiedDocument[] = [];
  for (const { name, isExpanded, isIndented } of opened) {
    const plain = (line: string): string => (isIndented ? line.replace(/^\t+/, '') : line);
    const content: string[] = [];
    for (; ; at += 1) {
      const line = lines[at];
      if (line === undefined) return undefined;
      if (plain(line).replace(/\r$/, '') === name) break;
      content.push(`${plain(line)}\n`);
    }
    documents.push({ name, isExpanded, content: content.join('') });
    at += 1;
  }
  return { documents, end: at };
}
