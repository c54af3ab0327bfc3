/** Which option of a command line asks for what to be made anew? */
import { FlynnError } from '@flynn/kit/errors';
import type { Rotation } from './rotation.ts';

const flags = {
  'rotate-tokens': 'tokens',
  'rotate-root-key': 'root key',
  'rotate-sealing-key': 'sealing key',
  'rotate-authority': 'authority',
} as const satisfies Record<string, Rotation>;

type RotationFlag = keyof typeof flags;
export const rotationFlags = Object.keys(flags) as readonly RotationFlag[];

export type RotationFlags = Readonly<Partial<Record<RotationFlag, boolean>>>;

/** `others`: options that are something else to do, and whether they were given. `invalid` for two things at once. */
export function rotationOf(given: RotationFlags, others: Readonly<Record<string, boolean>>): Rotation | undefined {
  const asked = rotationFlags.filter((flag) => given[flag] === true);
  if (asked.length + Object.values(others).filter(Boolean).length > 1) {
    const names = [...rotationFlags, ...Object.keys(others)].map((name) => `--${name}`);
    const all = `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
    throw new FlynnError('invalid', `${all} are different things: give one of them`);
  }
  const [flag] = asked;
  return flag === undefined ? undefined : flags[flag];
}
