/**
 * Could an engine take lines of a Dockerfile for what is in a here-document, which are instructions to others? Newer ones read
 * documents of RUN, COPY and ADD, to the line that is called as one is; older ones know none. Where no line below is called so,
 * those that know them refuse all of the Dockerfile. How versions read quotes and variables differs: here they count for nothing,
 * so that no name is missed. Pure.
 */
import type { Instruction } from './instructions.ts';

/** To engines a byte order mark is none. */
const space = /[^\S\uFEFF]|\u0085/;
const opening = /<<-?([^<]+)/g;
/** To engines `<<""` may end at an empty line. */
const isUnnamed = /^(?:""|'')+(?:[\s\u0085]|$)/;

/** By words, so that each document is looked for in one go however many lines there are. `last`: the last line that ends here. */
type Lines = { next: Map<string, Lines>; last: number };

/** The first instruction of a finished Dockerfile that may begin a document which a line below it ends. */
export function swallowing(dockerfile: string, instructions: readonly Instruction[]): Instruction | undefined {
  const suspects = instructions.filter(({ name, text }) => /^(?:RUN|COPY|ADD)$/.test(name) && text.includes('<<'));
  if (suspects.length === 0) return undefined;
  const lines = linesOf(dockerfile);
  return suspects.find(({ text, lastLine }) =>
    text.matchAll(opening).some(([, named = '']) => {
      if (space.test(named.charAt(0))) return false;
      return (isUnnamed.test(named) && lines.last > lastLine) || isBelow(lastLine, wordsOf(named), lines);
    }),
  );
}

function linesOf(dockerfile: string): Lines {
  const lines: Lines = { next: new Map(), last: 0 };
  for (const [at, line] of dockerfile.split('\n').entries()) {
    let place = lines;
    for (const word of wordsOf(line)) {
      const next = place.next.get(word) ?? { next: new Map(), last: 0 };
      place.next.set(word, next);
      place = next;
    }
    place.last = at + 1;
  }
  return lines;
}

/** Whether a line below is what these words begin with. */
function isBelow(line: number, words: readonly string[], lines: Lines): boolean {
  let place: Lines | undefined = lines;
  for (const word of words) {
    place = place.next.get(word);
    if (place === undefined) return false;
    if (place.last > line) return true;
  }
  return false;
}

function wordsOf(text: string): string[] {
  const bare = text.replace(/[\\"'${}\uFEFF]/g, '').trim();
  return bare === '' ? [] : bare.split(space);
}
