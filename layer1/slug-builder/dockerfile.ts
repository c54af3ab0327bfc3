/** What has to be known of a Dockerfile before the engine reads it: which images and arguments it asks for. */
import { isLocalName } from '@flynn/host-agent/images/names';
import { FlynnError } from '@flynn/kit/errors';

/** Images of the platform's, by names that mean the same on every cluster; the engine's are longer. */
const ownImage = /^flynn\/[a-z0-9-]+(?::[A-Za-z0-9_.-]+)?$/;

const from = /^(\s*FROM\s+(?:--\S+\s+)*)(\S+)/gim;
const copyFrom = /(--from=)(\S+)/g;

/** Those it names that are the platform's, each once: `flynn/slug-runner`, `flynn/image:<digest>`. */
export function ownImagesOf(dockerfile: string): string[] {
  const named = [...dockerfile.matchAll(from), ...dockerfile.matchAll(copyFrom)].map(([, , name = '']) => name);
  return [...new Set(named.filter((name) => ownImage.test(name)))];
}

/** The same with other names for these. */
export function withImages(dockerfile: string, names: ReadonlyMap<string, string>): string {
  const replaced = (whole: string, before: string, name: string): string => {
    const other = names.get(name);
    return other === undefined ? whole : before + other;
  };
  return dockerfile.replace(from, replaced).replace(copyFrom, replaced);
}

const reference = /^[a-z0-9][a-z0-9._/:-]*(?:@sha256:[0-9a-f]{64})?$/i;

/**
 * The same with its arguments put into FROM, so that what stands there is what the engine will read. `invalid` for names by
 * which the engine would find what it has of other apps: beginnings of ids, and the names that the platform gives images.
 */
export function withPlainBases(
  dockerfile: string,
  args: Readonly<Record<string, string>>,
  platform: Readonly<Record<string, string>> = platformArgs(),
): string {
  if (/^\W*#\s*escape\s*=\s*[^\\\s]/im.test(dockerfile))
    throw refusal('only \\ continues a line, whatever # escape= says');
  const lines = instructionsOf(dockerfile);
  const firstFrom = lines.findIndex(({ text }) => /^FROM\b/i.test(text));
  const given = { ...platform, ...args };
  const global = { ...given, ...defaultsOf(lines.slice(0, Math.max(0, firstFrom)), given), ...args };
  const stages = new Set<string>();
  for (const { text, isWhole, firstLine } of lines) {
    // What a later build does is checked as part of that one; here it would be believed to be.
    if (/^ONBUILD\b/i.test(text))
      throw refusal(`line ${firstLine}: ONBUILD is of no use, as nobody builds on this image but by its number`);
    if (!/^FROM\b/i.test(text)) {
      if (/^(?:COPY|ADD)\b/i.test(text)) assertSources(text, stages);
      continue;
    }
    const [, , base] = new RegExp(from.source, 'i').exec(text) ?? [];
    if (!isWhole || base === undefined)
      throw refusal(`line ${firstLine}: FROM has to be on one line, with the image it names`);
    assertForeign(expand(base, global), stages);
    const [, stage] = /\sAS\s+(\S+)\s*$/i.exec(text) ?? [];
    if (stage !== undefined) stages.add(stage.toLowerCase());
  }
  // Lines that we take for the rest of another one the engine may not.
  const own = new Set(lines.map(({ text }) => text));
  for (const line of dockerfile.split(/\r?\n/)) {
    if (/^\s*(?:COPY|ADD)\b/i.test(line)) assertSources(line, stages);
    for (const [, , base = ''] of line.matchAll(from)) {
      try {
        assertForeign(expand(base, global), stages);
      } catch (error) {
        if (own.has(line.trim())) throw error;
        throw refusal(`"${line.trim()}" goes on with the line before and begins with FROM: put that word there`);
      }
    }
  }
  return dockerfile.replace(
    from,
    (_whole, before: string, name: string) => withPlatform(before, global) + expand(name, global),
  );
}

/** The engine knows of arguments only those that are declared, and one with a space in it would be another image. */
function withPlatform(before: string, args: Readonly<Record<string, string>>): string {
  return before.replace(/(--platform=)(\S+)/gi, (_whole, flag: string, text: string) => {
    const value = substitute(text, args);
    if (/^[\w./-]+$/.test(value)) return flag + value;
    throw refusal(`"${text}" in FROM is no platform: write OS/ARCHITECTURE, or leave it out`);
  });
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

function assertSources(copy: string, stages: ReadonlySet<string>): void {
  for (const [, , name = ''] of copy.matchAll(copyFrom)) if (!/^\d{1,2}$/.test(name)) assertForeign(name, stages);
}

function refusal(why: string): FlynnError {
  return new FlynnError('invalid', `The Dockerfile cannot be built here: ${why}.`);
}

function assertForeign(name: string, stages: ReadonlySet<string>): void {
  if (name === 'scratch' || stages.has(name.toLowerCase())) return;
  if (!isLocalName(name) && reference.test(name)) return;
  throw refusal(`"${name}" is no name of an image: write REPOSITORY:TAG, or the name of a stage before`);
}

export type Instruction = {
  /** In capitals. */
  name: string;
  text: string;
  isWhole: boolean;
  /** From 1 on. */
  firstLine: number;
  lastLine: number;
};

/** Lines that continue put together, comments left out. */
export function instructionsOf(dockerfile: string): Instruction[] {
  const lines = dockerfile.split(/\r?\n/);
  const found: Instruction[] = [];
  for (let place = 0; ;) {
    const next = instructionFrom(lines, place);
    if (next === undefined) return found;
    found.push(next);
    place = next.lastLine;
  }
}

/** The first that begins at this place or below it. */
export function instructionFrom(lines: readonly string[], place: number): Instruction | undefined {
  let open: { text: string; firstLine: number } | undefined;
  const made = (given: string, more: Pick<Instruction, 'isWhole' | 'firstLine' | 'lastLine'>): Instruction => {
    const text = given.trim();
    return { name: (/^\w+/.exec(text)?.[0] ?? '').toUpperCase(), text, ...more };
  };
  for (let at = place; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    if (/^\s*(?:#|$)/.test(line)) continue;
    const trimmed = line.trimEnd();
    const continues = trimmed.endsWith('\\');
    const text = (open?.text ?? '') + (continues ? trimmed.slice(0, -1) : trimmed);
    const firstLine = open?.firstLine ?? at + 1;
    if (!continues) return made(text, { isWhole: open === undefined, firstLine, lastLine: at + 1 });
    open = { text, firstLine };
  }
  return open && made(open.text, { isWhole: false, firstLine: open.firstLine, lastLine: lines.length });
}

/** An instruction's name and its flags, over the lines it goes on over. */
export const instructionHead = /^\s*\w+(?:(?:\s|\\[ \t]*\r?\n)+--[\w-]+(?:=\S*)?)*/;

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
  const lines = [...dockerfile.matchAll(/^\s*ARG\s+([^\r\n]+)/gim)].map(([, text = '']) => text);
  const words = lines.flatMap((line) => line.match(/(?<=^|\s)[A-Za-z_]\w*/g) ?? []);
  const declared = new Set(words);
  return Object.fromEntries(Object.entries(env).filter(([name]) => declared.has(name)));
}
