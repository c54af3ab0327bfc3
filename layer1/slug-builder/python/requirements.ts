/** What of the source decides what requirements install? */
import { dirname, join, relative } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import { exists } from '../nodejs/toolchain.ts';

/**
 * The file, and those that it names, one after the other; undefined where one of them is not in the app, so that nobody can say
 * whether it has changed.
 */
export async function requirementsText(appDir: string, file: string): Promise<string | undefined> {
  const texts = new Map<string, string>();
  const names = [file];
  for (const name of names) {
    if (texts.has(name)) continue;
    const text = isWithin(name) ? await readTextFile(join(appDir, name)).catch(() => undefined) : undefined;
    if (text === undefined) return undefined;
    texts.set(name, text);
    names.push(...linesOf(text).flatMap((line) => namedIn(line).map((named) => join(dirname(name), named))));
  }
  return [...texts].map(([name, text]) => `${name}\n${text}\n`).join('');
}

/** To pip a folder has a slash: a bare name is one of an index, whatever the app's folders are called, or that of an archive. */
const isPlace = /\/|\.(?:whl|zip|tar|t[gbx]z|gz|bz2|xz)$/i;

/** Whether something of the app itself is installed: that changes with the source. */
export async function hasLocal(appDir: string, text: string): Promise<boolean> {
  for (const line of linesOf(text)) {
    if (/^(?:-e|--editable)\b|^\.|^\/|^file:|@\s*file:/.test(line)) return true;
    const [, place = ''] = /^([^\s;[#@=<>~!]+)/.exec(line) ?? [];
    if (isPlace.test(place) && !place.startsWith('-') && isWithin(place) && (await exists(join(appDir, place))))
      return true;
  }
  return false;
}

/** Without comments and empty ones; those that go on in the next are put together. */
function linesOf(text: string): string[] {
  const lines = text.replaceAll(/\\\r?\n/g, ' ').split(/\r?\n/);
  return lines.map((line) => line.replace(/(?:^|\s)#.*$/, '').trim()).filter((line) => line !== '');
}

function namedIn(line: string): string[] {
  const [, name] = /^(?:-r|--requirement|-c|--constraint)[\s=]*(\S+)/.exec(line) ?? [];
  return name === undefined ? [] : [name];
}

/** An address, an absolute path or one that leads out of the app is nothing that is pushed with it. */
function isWithin(path: string): boolean {
  return !/^[a-z][a-z0-9+.-]*:|\$\{/i.test(path) && !path.startsWith('/') && !relative('.', path).startsWith('..');
}
