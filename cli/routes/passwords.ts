/** Passwords of the users of a route: asked for here, and sent as hashes. What was typed goes nowhere. */
import { checkPassword, hashPassword } from '@flynn/kit/password-hash';
import { usageError } from '../arguments.ts';
import { readNamed } from '../input-file.ts';
import type { Io } from '../io.ts';
import { readSecret } from '../secret-input.ts';

/** At a terminal one after the other; else they are the lines of standard input, in the order of the users. */
export async function askPasswords(users: readonly string[], io: Io): Promise<Record<string, { hash: string }>> {
  const names = [...new Set(users)];
  const passwords = io.stdin.isTTY === true ? await askEach(names, io) : await readLines(names, io);
  const entries: [string, { hash: string }][] = [];
  for (const [index, name] of names.entries()) entries.push([name, { hash: await hashed(passwords[index] ?? '') }]);
  return Object.fromEntries(entries);
}

/** For a file. */
export async function askHash(io: Io): Promise<string> {
  return hashed(await readSecret(io, 'the password'));
}

function hashed(password: string): Promise<string> {
  return hashPassword(checkPassword(password));
}

async function askEach(names: readonly string[], io: Io): Promise<string[]> {
  const passwords: string[] = [];
  for (const name of names) passwords.push(await readSecret(io, `the password of ${name}`));
  return passwords;
}

async function readLines(names: readonly string[], io: Io): Promise<string[]> {
  const lines = (await readNamed(io, '-')).replace(/\r?\n$/, '').split(/\r?\n/);
  if (lines.length === names.length) return lines;
  throw usageError(
    `standard input has ${lines.length} lines, and there are ${names.length} users: one password each, in that order`,
  );
}
