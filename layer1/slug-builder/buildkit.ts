/** What of a Dockerfile does BuildKit alone know, and what of that can be done without? The engine's own builder knows none. */
import { FlynnError } from '@flynn/kit/errors';
import { openedBy } from './copied-documents.ts';
import { type CopiedDocuments, heredocOf, withoutHeredocs } from './heredocs.ts';
import { type Instruction, instructionHead as head, instructionsOf } from './instructions.ts';

export type Plain = {
  /** Each line is where it was. */
  dockerfile: string;
  /** What was left out of it, or is said otherwise, for people. */
  notes: string[];
  /** What COPY and ADD have below them: their lines are empty now. */
  documents: CopiedDocuments;
};

const mostTold = 5;

/**
 * The same without what changes nothing but how long it takes, and with what can be said otherwise. `invalid` names what is left of
 * such words, and what to write.
 */
export function withoutBuildKit(dockerfile: string): Plain {
  const { dockerfile: inLines, notes, documents } = withoutHeredocs(dockerfile);
  const lines = inLines.split('\n');
  for (const { name, firstLine, lastLine } of instructionsOf(inLines)) {
    const before = lines.slice(firstLine - 1, lastLine);
    const after = before.join('\n').replace(head, (flags) =>
      flags.replace(flag, (whole) => {
        const why = superfluous(name, whole);
        if (why === undefined) return whole;
        notes.push(`line ${firstLine}: ${whole} is left out: ${why}`);
        return '';
      }),
    );
    lines.splice(firstLine - 1, before.length, ...after.split('\n'));
  }
  const plain = lines.join('\n');
  const problems = [...problemsOf(instructionsOf(plain), documents)];
  if (problems.length === 0) return { dockerfile: plain, notes, documents };
  const more = problems.length > mostTold ? [`and ${problems.length - mostTold} more`] : [];
  throw new FlynnError(
    'invalid',
    `The Dockerfile uses what only BuildKit knows:\n${[...problems.slice(0, mostTold), ...more].join('\n')}`,
  );
}

const flag = /--[\w-]+(?:=\S*)?/g;

function superfluous(instruction: string, given: string): string | undefined {
  const [name = '', value = ''] = given.split(/=(.*)/s);
  if (name === '--link' && /^(?:COPY|ADD)$/.test(instruction)) return 'the image is the same';
  if (instruction !== 'RUN') return undefined;
  if (name === '--network' && value === 'default') return 'that is so in any case';
  const isCache =
    name === '--mount' && /(?:^|,)type=cache(?:,|$)/.test(value) && !/(?:^|,)(?:from|source|src)=/.test(value);
  return isCache ? 'the step begins without that cache, and what it keeps there is in the image' : undefined;
}

function* problemsOf(instructions: readonly Instruction[], documents: CopiedDocuments): Generator<string> {
  let heredocEnd: string | undefined;
  for (const instruction of instructions) {
    const { name, text, firstLine } = instruction;
    // What a here-document holds is no instruction.
    if (heredocEnd !== undefined) {
      if (text.trim() === heredocEnd) heredocEnd = undefined;
      continue;
    }
    if (!/^(?:RUN|COPY|ADD)$/.test(name)) continue;
    const flags = head.exec(text)?.[0].match(flag) ?? [];
    for (const given of flags) {
      const remedy = remedyFor(name, given);
      if (remedy !== undefined) yield `line ${firstLine}: ${name} ${given.split(',')[0]}: ${remedy}`;
    }
    const [opened] = documents.has(firstLine) ? [] : openedBy(instruction);
    if (opened !== undefined) {
      yield `line ${firstLine}: ${name} <<${opened.name}: a line with nothing but the name ends each, in their order: one is not there`;
      return;
    }
    heredocEnd = name === 'RUN' ? heredocOf(text) : undefined;
    if (heredocEnd !== undefined) yield `line ${firstLine}: RUN <<${heredocEnd}: ${insteadOfHeredoc}`;
    const repository =
      name === 'ADD' ? /\s((?:git@|git:|ssh:)\S+|https?:\S+\.git(?:#\S*)?)(?=\s)/.exec(text)?.[1] : undefined;
    if (repository !== undefined)
      yield `line ${firstLine}: ADD ${repository}: RUN git clone, or make it a submodule and COPY it`;
  }
}

function remedyFor(instruction: string, given: string): string | undefined {
  const [name = '', value = ''] = given.split(/=(.*)/s);
  const known: Readonly<Record<string, string>> = instruction === 'RUN' ? ofRun : ofCopy;
  if (name !== '--mount') return Object.hasOwn(known, name) ? known[name] : undefined;
  if (instruction !== 'RUN') return undefined;
  const type = /(?:^|,)type=(\w+)/.exec(value)?.[1] ?? 'bind';
  return Object.hasOwn(ofMounts, type) ? ofMounts[type] : 'leave it out';
}

const ofRun: Readonly<Record<string, string>> = {
  '--network': 'leave it out; steps reach the outside world and nothing of the cluster',
  '--security': 'leave it out; no step has more rights than others',
  '--device': 'leave it out; builds have no devices',
};
const ofMounts: Readonly<Record<string, string>> = {
  bind: 'COPY what it needs in a stage of its own, or before it',
  cache: 'leave it out, or COPY what is in it to begin with',
  secret: 'read it when the app runs, as a variable; what ARG takes is in the image for everybody to read',
  ssh: 'make what it fetches a submodule: those are fetched with the key of the app (SSH_CLIENT_KEY)',
  tmpfs: 'remove what it writes there at the end of the step',
};
const ofCopy: Readonly<Record<string, string>> = {
  '--parents': 'COPY each folder to its own place',
  '--exclude': 'name what is to be left out in .dockerignore',
  '--checksum': 'RUN curl -fsSLo FILE URL && echo "SUM  FILE" | sha256sum -c',
  '--keep-git-dir': 'RUN git clone',
  '--unpack': 'RUN tar -xf FILE after it',
};

const insteadOfHeredoc = String.raw`join its commands by "&& \", or commit them as a script and COPY that`;
