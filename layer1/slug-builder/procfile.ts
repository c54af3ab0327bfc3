/** Which process types does a Procfile declare, and with which command lines? */
import { FlynnError } from '@flynn/kit/errors';
import { processType } from '@flynn/kit/names';

/** `invalid` names the line that is wrong and what a line looks like. */
export function parseProcfile(text: string): Record<string, string> {
  const types = new Map<string, { line: string; number: number }>();
  for (const [index, raw] of text
    .replace(/^\uFEFF/, '')
    .split(/\r\n|\n|\r/)
    .entries()) {
    const number = index + 1;
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    const match = /^([^\s:]+)\s*:\s*(.*)$/.exec(line);
    const [, name = '', command = ''] = match ?? [];
    if (match === null) throw wrong(number, line, 'is not "name: command", as in "web: node server.js"');
    const named = processType.safeParse(name);
    if (!named.success) throw wrong(number, line, `has an unusable name: ${named.error.issues[0]?.message ?? ''}`);
    if (command === '') throw wrong(number, line, `names ${name} but no command, as in "${name}: node server.js"`);
    const earlier = types.get(name);
    if (earlier !== undefined) throw wrong(number, line, `declares ${name} again: line ${earlier.number} did already`);
    types.set(name, { line: command, number });
  }
  return Object.fromEntries([...types].map(([name, { line }]) => [name, line]));
}

function wrong(number: number, line: string, why: string): FlynnError {
  return new FlynnError('invalid', `Procfile line ${number} ${why}: ${line}`);
}
