/** What does the engine read for a Dockerfile: which images, and which arguments? Said so that it can be read in one way alone. */
import { isLocalName } from '@flynn/host-agent/images/names';
import { Outside } from '@flynn/kit/outside';
import { type Instruction, checkReading, flagsOf, instructionsOf, refusal, withFlags } from './instructions.ts';
import { swallowing } from './swallowed-lines.ts';
import { pairsOf } from './variables.ts';

/** Images of the platform's, by names that mean the same on every cluster; the engine's are longer. */
const ownImage = /^flynn\/[a-z0-9-]+(?::[A-Za-z0-9_.-]+)?$/;

/** In a Dockerfile that is plain: all that is read of images. */
const from = /^(FROM[ \t]+(?:--\S+[ \t]+)*)(\S+)/gim;
const copyFrom = /^(COPY[ \t]+(?:--\S+[ \t]+)*?--from=)(\S+)/gim;

/** Those it names that are the platform's, each once: `flynn/slug-runner`, `flynn/image:<digest>`. */
export function ownImagesOf(plain: string): string[] {
  const named = [...plain.matchAll(from), ...plain.matchAll(copyFrom)].map(([, , name = '']) => name);
  return [...new Set(named.filter((name) => ownImage.test(name)))];
}

/** The same with other names for these. */
export function withImages(plain: string, names: ReadonlyMap<string, string>): string {
  const replaced = (whole: string, before: string, name: string): string => {
    const other = names.get(name);
    return other === undefined ? whole : before + other;
  };
  return plain.replace(from, replaced).replace(copyFrom, replaced);
}

const reference = /^[a-z0-9][a-z0-9._/:-]*(?:@sha256:[0-9a-f]{64})?$/i;
/** Longer lines no engine reads: what goes on over several stays so. */
const mostLineBytes = 60_000;

/**
 * The same as every engine reads it: an instruction is one line, at the place of its first, without comments and directives; its
 * flags are plain, and arguments are put into FROM. `invalid` for what may be read in two ways, and for names by which the engine
 * would find what it has of other apps: beginnings of ids, and the names that the platform gives images.
 */
export function withPlainBases(
  dockerfile: string,
  args: Readonly<Record<string, string>>,
  platform: Readonly<Record<string, string>> = platformArgs(),
): string {
  if (/^[^\w\n]*#\s*escape\s*=\s*[^\\\s]/im.test(dockerfile))
    throw refusal('only \\ continues a line, whatever # escape= says');
  const lines = dockerfile.split('\n');
  const instructions = instructionsOf(dockerfile);
  const firstFrom = instructions.findIndex(({ name }) => name === 'FROM');
  const given = { ...platform, ...args };
  const global = { ...given, ...defaultsOf(instructions.slice(0, Math.max(0, firstFrom)), given), ...args };
  const plain = lines.map(() => '');
  // A stage is one by its name only when it has ended: in itself the name is an image's.
  const stages = new Set<string>();
  let open: string | undefined;
  for (const instruction of instructions) {
    const { name, firstLine } = instruction;
    checkReading(instruction);
    // What a later build does is checked as part of that one; here it would be believed to be.
    if (name === 'ONBUILD')
      throw refusal(`line ${firstLine}: ONBUILD is of no use, as nobody builds on this image but by its number`);
    if (name === 'FROM') {
      if (open !== undefined) stages.add(open);
      const { text, stage } = plainFrom(instruction, global, stages);
      open = stage;
      plain[firstLine - 1] = text;
    } else if (name === 'COPY' || name === 'ADD') plain[firstLine - 1] = plainCopy(instruction, stages);
    else plain.splice(firstLine - 1, ...inLines(instruction, lines));
  }
  return plain.join('\n');
}

function plainFrom(
  instruction: Instruction,
  args: Readonly<Record<string, string>>,
  stages: ReadonlySet<string>,
): { text: string; stage: string | undefined } {
  const { text, isWhole, firstLine } = instruction;
  const { flags, rest } = flagsOf(instruction);
  const [base = '', as, stage, ...others] = rest.split(/[ \t]+/);
  if (!isWhole || base === '') throw refusal(`line ${firstLine}: FROM has to be on one line, with the image it names`);
  if (
    others.length > 0 ||
    (as !== undefined && !/^as$/i.test(as)) ||
    (as !== undefined && !/^[A-Za-z][\w.-]*$/.test(stage ?? ''))
  )
    throw refusal(`line ${firstLine}: FROM names an image and nothing else, or IMAGE AS STAGE`);
  const name = expand(base, args);
  assertForeign(name, stages);
  const platform = flags.map(({ value }) => `--platform=${platformIn(value, args)}`);
  const [keyword = ''] = text.split(/[ \t]/);
  return {
    text: [keyword, ...platform, name, ...(stage === undefined ? [] : [as, stage])].join(' '),
    stage: stage?.toLowerCase(),
  };
}

/** Two engines find the same flags in what has no quotes there. */
function plainCopy(instruction: Instruction, stages: ReadonlySet<string>): string {
  const { flags, rest } = flagsOf(instruction);
  for (const { name, value } of flags) if (name === 'from' && !/^\d{1,2}$/.test(value)) assertForeign(value, stages);
  return withFlags(instruction, flags, rest);
}

/**
 * The last look at what the engine is given, whoever wrote its lines: `invalid` where any engine would find in it what it has of
 * other apps. `lineOf`: by a line of it, that which people wrote.
 */
export function checkFinished(dockerfile: string, lineOf: (line: number) => number): void {
  const instructions = instructionsOf(dockerfile);
  const beginning = swallowing(dockerfile, instructions);
  if (beginning !== undefined)
    throw refusal(
      `line ${lineOf(beginning.firstLine)}: behind << in it stands what is a line below: to some engines a document ends there. Write it otherwise`,
    );
  const stages = new Set<string>();
  let [open, begun] = ['', 0];
  for (const instruction of instructions) {
    if (!/^(?:FROM|COPY|ADD)$/.test(instruction.name)) continue;
    const { flags, rest } = flagsOf(instruction);
    for (const { name, value } of flags)
      if (name === 'from' && !(/^\d{1,6}$/.test(value) && Number(value) < begun)) assertForeign(value, stages);
    if (instruction.name !== 'FROM') continue;
    if (open !== '') stages.add(open);
    const [base = '', , stage = ''] = rest.split(/[ \t]+/);
    assertForeign(base, stages);
    [open, begun] = [stage.toLowerCase(), begun + 1];
  }
}

/** As `splice` takes it: how many lines are replaced, and by what. */
function inLines({ text, firstLine, lastLine }: Instruction, lines: readonly string[]): [number, ...string[]] {
  if (Buffer.byteLength(text) <= mostLineBytes || firstLine === lastLine) return [1, text];
  const own = lines.slice(firstLine - 1, lastLine).map((line) => line.replace(/\r$/, ''));
  return [own.length, ...own];
}

/** Of a finished Dockerfile: the images that its stages begin with, each once. */
export function basesOf(finished: string): { name: string; platform?: string }[] {
  const bases = new Map<string, { name: string; platform?: string }>();
  const stages = new Set(['scratch']);
  for (const instruction of instructionsOf(finished)) {
    if (instruction.name !== 'FROM') continue;
    const { flags, rest } = flagsOf(instruction);
    const [name = '', , stage] = rest.split(/[ \t]+/);
    const [platform] = flags.map(({ value }) => value);
    if (!stages.has(name.toLowerCase()))
      bases.set(`${name} ${platform}`, { name, ...(platform === undefined ? {} : { platform }) });
    if (stage !== undefined) stages.add(stage.toLowerCase());
  }
  return [...bases.values()];
}

/** The engine knows of arguments only those that are declared, and one with a space in it would be another image. */
function platformIn(text: string, args: Readonly<Record<string, string>>): string {
  const value = substitute(text, args);
  if (/^[\w./-]+$/.test(value)) return value;
  throw refusal(`"${text}" in FROM is no platform: write OS/ARCHITECTURE, or leave it out`);
}

const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };

/** What BuildKit gives builds by itself: what runs is made for the machine that it is made on. */
export function platformArgs(arch: string = process.arch): Record<string, string> {
  const architecture = architectures[arch] ?? arch;
  const of = (prefix: string): [string, string][] => [
    [`${prefix}PLATFORM`, `linux/${architecture}`],
    [`${prefix}OS`, 'linux'],
    [`${prefix}ARCH`, architecture],
    [`${prefix}VARIANT`, ''],
  ];
  return Object.fromEntries([...of('TARGET'), ...of('BUILD')]);
}

function assertForeign(name: string, stages: ReadonlySet<string>): void {
  if (name === 'scratch' || stages.has(name.toLowerCase())) return;
  if (isLocalName(name) || !reference.test(name))
    throw refusal(`"${name}" is no name of an image: write REPOSITORY:TAG, or the name of a stage before`);
  if (!isOutside(name))
    throw refusal(`"${name}" is in a registry of the host itself or of the cluster: name one that is outside of it`);
}

const outside = new Outside();

/** The engine asks registries from the host's own network. */
function isOutside(name: string): boolean {
  const [first = '', ...path] = name.split('/');
  const host = first.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase();
  // The engine takes one with capitals for a registry, too.
  if (path.length === 0 || !(/[.:A-Z]/.test(first) || host === 'localhost')) return true;
  if (/^(?:.*\.)?localhost$/.test(host)) return false;
  // Short forms (127.1, 0x7f.1) are addresses to who looks them up.
  return outside.has(host) || !/(?:^|\.)(?:\d+|0x[0-9a-f]*)$/.test(host);
}

/** Each may be made of those before it, as they are given or by their defaults. */
function defaultsOf(
  lines: readonly Instruction[],
  args: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const values: Record<string, string> = {};
  for (const { text } of lines) {
    const [, pairs = ''] = /^ARG\s+(.*)$/i.exec(text) ?? [];
    for (const [, name = '', value = ''] of pairs.matchAll(/(?<=^|\s)(\w+)=("[^"]*"|'[^']*'|\S*)/g)) {
      const [, quote, inside = value] = /^(["'])(.*)\1$/.exec(value) ?? [];
      values[name] = quote === "'" ? inside : substitute(inside, { ...values, ...args });
    }
  }
  return values;
}

/** `$NAME`, `${NAME}`, `${NAME:-other}`; the rest stays as it is. */
function substitute(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\$(?:(\w+)|\{(\w+)(?::-([^}$]*))?\})/g, (_all, bare?: string, name = '', other = '') => {
    const value = values[bare ?? name] ?? '';
    return value === '' ? String(other) : value;
  });
}

function expand(text: string, values: Readonly<Record<string, string>>): string {
  const expanded = substitute(text, values);
  if (/[$"'\\`]/.test(expanded))
    throw refusal(`"${text}" in FROM is not understood: arguments are written $NAME or \${NAME:-other}`);
  return expanded;
}

/** Whether it says itself what its image starts, in its last stage or in one that this is made of; else the base does. */
export function saysCommand(dockerfile: string): boolean {
  const stages = new Map<string, boolean>();
  let stage = '';
  for (const { name, text } of instructionsOf(dockerfile)) {
    if (name === 'FROM') {
      const [, , base = ''] = new RegExp(from.source, 'i').exec(text) ?? [];
      const isSaid = stages.get(base.toLowerCase()) ?? false;
      stage = /\sAS\s+(\S+)\s*$/i.exec(text)?.[1]?.toLowerCase() ?? '';
      stages.set(stage, isSaid);
    } else if (name === 'CMD' || name === 'ENTRYPOINT') stages.set(stage, true);
  }
  return stages.get(stage) ?? false;
}

/** Of the app's variables those that the Dockerfile declares with ARG: they become part of the image's history. */
export function argsOf(dockerfile: string, env: Readonly<Record<string, string>>): Record<string, string> {
  const lines = instructionsOf(dockerfile).filter(({ name }) => name === 'ARG');
  const declared = new Set(lines.flatMap(({ text }) => pairsOf(text).map(([name]) => name)));
  return Object.fromEntries(Object.entries(env).filter(([name]) => declared.has(name)));
}
