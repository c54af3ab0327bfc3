/** Steps that write here-documents as files, with the shell of `flynn/slug-runner`. Pure. */
import { mostLineBytes, octal } from './heredocs.ts';

const documentsDir = '/copied/documents';
/** Where one is, by its name. */
export const placeOf = (document: string): string => `${documentsDir}/${document}`;
/** What else is in a line, with some to spare. */
const mostOfContent = mostLineBytes - 1_000;

/** With one time for all: the same content is the same file. */
export function writing(documents: readonly { name: string; content: string }[]): string[] {
  if (documents.length === 0) return [];
  const commands = documents.flatMap(({ name, content }) => [
    ...parts(octal(content)).map((part, at) => `printf %b '${part}' ${at === 0 ? '>' : '>>'} ${placeOf(name)}`),
    `chmod 644 ${placeOf(name)}`,
    `touch -d @0 ${placeOf(name)}`,
  ]);
  return inLines([`mkdir -p ${documentsDir}`, ...commands]);
}

/** Of files that are written. */
export function modesOf(documents: readonly { name: string }[], mode: string): string[] {
  return documents.map(({ name }) => `chmod -- ${mode} ${placeOf(name)}`);
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
