/** Where are files while their modes are set, and what sets them? Shell is that of `flynn/slug-runner`. Pure. */
import { posix } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { type Fetching, fetching as fetchingOf, isAddress, nameInAddress } from './added-addresses.ts';

export type Copies = {
  /** Of the stage that prepares them; `from` is the flag that says where they are, with a space behind it. */
  lines: (from: string) => string[];
  /** Where they are then: wildcards as they were given. */
  places: string[];
  /** Commands that fail, saying why, where they cannot be taken from there. */
  checks: string[];
  /** Commands that set the mode of what is taken, of folders with all that is in them. */
  setting: ((mode: string) => string)[];
};

/** What is copied, and for people the same with its variables, whose values are not for all of them. */
export type Source = { path: string; word: string };

const filesDir = '/copied/files';
const addressesDir = '/copied/addresses';

/** What is copied keeps its path below a folder of its own: the engine matches wildcards there, as it would have where it was. */
export function copiesOf(
  sources: readonly Source[],
  { isAdd, destination, fetching }: { isAdd: boolean; destination: string; fetching: Fetching },
): Copies {
  const lines: ((from: string) => string)[] = [];
  const taken = new Set<string>();
  const places: string[] = [];
  const checks: string[] = [];
  const setting: Copies['setting'] = [];
  for (const [at, source] of sources.entries()) {
    if (isAdd && isAddress(source.path)) {
      const place = `${addressesDir}/${at + 1}/${nameIn(source, destination)}`;
      const isSecret = source.word !== source.path;
      lines.push(() => fetchingOf(source.path, place, { ...fetching, isSecret }));
      places.push(place);
      setting.push((mode) => `chmod -- ${mode} '${place}'`);
      continue;
    }
    checkName(source);
    const path = posix.join('/', source.path).replace(/(?<=.)\/$/, '');
    const segments = path.split('/');
    const wild = segments.findIndex((segment) => /[*?[]/.test(segment));
    const base = wild < 0 ? path : segments.slice(0, wild).join('/') || '/';
    places.push(filesDir + path);
    const patterns = wild < 0 ? [] : segments.slice(wild);
    for (const depth of patterns.keys()) checks.push(refusingLinks(filesDir + base, patterns.slice(0, depth + 1)));
    if (isAdd) checks.push(refusingArchives(filesDir + base, patterns));
    setting.push((mode) =>
      // Of a link it is that of what it leads to, which is what is copied.
      wild < 0
        ? `chmod -R -- ${mode} '${filesDir}${path}'`
        : `${found(filesDir + base, patterns)} -exec chmod -R -- ${mode} {} +`,
    );
    if (taken.has(base)) continue;
    taken.add(base);
    lines.push((from) => `COPY ${from}${JSON.stringify([base, filesDir + base])}`);
  }
  return { lines: (from) => lines.map((line) => line(from)), places, checks, setting };
}

/** What the engine would take as something else, or no line holds. */
function checkName({ word, path }: Source): void {
  // eslint-disable-next-line no-control-regex
  if (path !== '' && !/[\0-\u001f\\$"'`]/.test(path)) return;
  throw new FlynnError(
    'invalid',
    `${JSON.stringify(word)} is no name that can be prepared${ofVariables(word)}: quotes, \\, $ and \` cannot be in it`,
  );
}

function ofVariables(word: string): string {
  return word.includes('$') ? ' with what its variables stand for' : '';
}

/** What a file is called matters where it is put into a folder. */
function nameIn({ word, path }: Source, destination: string): string {
  const name = nameInAddress(path);
  if (name !== undefined) return name;
  if (!/[/"'}]$/.test(destination)) return '__unnamed__';
  throw new FlynnError(
    'invalid',
    `${word} does not end in a plain name of a file${ofVariables(word)}: RUN curl -fsSLo FILE ${word}`,
  );
}

/** What is called so, as deep as the last of these patterns, or at the path itself. */
function found(path: string, patterns: readonly string[]): string {
  const last = patterns.at(-1);
  const depth = `-mindepth ${patterns.length} -maxdepth ${patterns.length}`;
  return `find '${path}' ${depth}${last === undefined ? '' : ` -name '${last.replaceAll('[^', '[!')}'`}`;
}

/** A link that a wildcard may name is followed where it is then: only of the folder that is copied all is there. */
function refusingLinks(folder: string, patterns: readonly string[]): string {
  const base = folder.replace(/\/$/, '');
  return `${found(folder, patterns)} -type l -exec sh -c 'for link; do case "$(test -e "$link" && readlink -m "$link")" in "${base}"|"${base}"/*) ;; *) echo "\${link#${filesDir}} is a link to $(readlink "$link"), which is not in the folder that is copied: name the file that it leads to" >&2; exit 1;; esac; done' sh {} +`;
}

/** Their beginnings: gzip, bzip2, xz, Zstandard; of tar what stands behind the first name. */
function refusingArchives(path: string, patterns: readonly string[]): string {
  return `${found(path, patterns)} -type f -exec sh -c 'for file; do case "$(od -An -tx1 -N6 "$file" | tr -d " ")-$(od -An -tx1 -j257 -N5 "$file" 2>/dev/null | tr -d " ")" in 1f8b*|425a68*|fd377a585a00*|28b52ffd*|*-7573746172) echo "\${file#${filesDir}} is an archive: ADD unpacks it with the modes that are in it. Leave --chmod out, or COPY it" >&2; exit 1;; esac; done' sh {} +`;
}

const symbolic = /^[ugoa]*(?:[-+=](?:[rwxXst]*|[ugo]))+(?:,[ugoa]*(?:[-+=](?:[rwxXst]*|[ugo]))+)*$/;

/** As `chmod` is to take it. A number says all there is of a mode, also of folders: that needs five digits. */
export function checkMode(mode: string, word: string): string {
  if (/^0*[0-7]{1,4}$/.test(mode)) return mode.replace(/^0+/, '').padStart(5, '0');
  if (symbolic.test(mode)) return mode;
  throw new FlynnError(
    'invalid',
    `--chmod=${word} is no mode${ofVariables(word)}: write up to four digits from 0 to 7, as 755, or who, how and what, as u=rwX,go=rX`,
  );
}
