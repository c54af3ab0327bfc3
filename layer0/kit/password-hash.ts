/**
 * Passwords that people choose, kept so that who reads them cannot say what they were: scrypt (RFC 7914) with a salt of each one's
 * own, written as a PHC string. For random secrets a plain digest does: secrets.ts.
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { FlynnError } from './errors.ts';
import { passwordHashPattern } from './password-hash-shape.ts';

/** 32 MiB and about a tenth of a second for each guess: who checks does so while it has other things to do. */
const usualCostLog2 = 15;
const blockSize = 8;
const keyBytes = 32;
const maxMemoryBytes = 40 * 1024 ** 2;
const lengths = { min: 8, max: 128 } as const;

const derive = promisify<string, Buffer, number, object, Buffer>(scrypt);

/** Throws `invalid` for what is no password that anybody should have. */
export function checkPassword(password: string): string {
  const { length } = password;
  if (/\p{Cc}/u.test(password))
    throw new FlynnError('invalid', 'a password is one line of text, without tabs and the like');
  if (length >= lengths.min && length <= lengths.max) return password;
  throw new FlynnError(
    'invalid',
    `a password has ${lengths.min} to ${lengths.max} characters, and this has ${length}: "openssl rand -base64 18" makes one`,
  );
}

/** `costLog2`: tests have no time for what guesses are to cost. */
export async function hashPassword(
  password: string,
  { costLog2 = usualCostLog2 }: { costLog2?: number } = {},
): Promise<string> {
  const salt = randomBytes(16);
  const key = await derive(password.normalize('NFC'), salt, keyBytes, costOf(costLog2));
  return `$scrypt$ln=${costLog2},r=${blockSize},p=1$${unpadded(salt)}$${unpadded(key)}`;
}

/** False too for what is no hash. It takes its time in a thread of its own: the caller bounds how many do at once. */
export async function isPasswordOf(password: string, hash: string): Promise<boolean> {
  const [, costLog2, salt, key] = passwordHashPattern.exec(hash) ?? [];
  if (costLog2 === undefined || salt === undefined || key === undefined) return false;
  const given = await derive(
    password.normalize('NFC'),
    Buffer.from(salt, 'base64'),
    keyBytes,
    costOf(Number(costLog2)),
  );
  return timingSafeEqual(given, Buffer.from(key, 'base64'));
}

function costOf(costLog2: number): object {
  return { N: 2 ** costLog2, r: blockSize, p: 1, maxmem: maxMemoryBytes };
}

function unpadded(bytes: Buffer): string {
  return bytes.toString('base64').replace(/=+$/, '');
}
