/** What clients of the control plane do to one value, and to one set of names, and what these would answer. */
import type { Model } from './checker.ts';

export type RegisterInput =
  | { kind: 'read' }
  | { kind: 'write'; value: number }
  /** Writes `value` where `expected` is. */
  | { kind: 'swap'; expected: number; value: number };
/** Of a read the value, of the others whether they took effect. */
export type RegisterOutput = { value: number } | { isDone: boolean };

export const register = (initial: number): Model<number, RegisterInput, RegisterOutput> => ({
  initial,
  keyOf: String,
  step: (state, input, output) => {
    if (input.kind === 'write') return input.value;
    if (input.kind === 'read') {
      return output === undefined || ('value' in output && output.value === state) ? state : undefined;
    }
    const isSame = state === input.expected;
    if (output !== undefined && !('isDone' in output && output.isDone === isSame)) return undefined;
    return isSame ? input.value : state;
  },
});

export type SetInput = { kind: 'add' | 'remove'; name: string } | { kind: 'list' };
/** Of a list the names, of the others that they took effect. */
export type SetOutput = readonly string[] | 'done';

/** Nobody adds a name twice or removes one that nobody has added. */
export const setOfNames: Model<readonly string[], SetInput, SetOutput> = {
  initial: [],
  keyOf: (names) => names.join(' '),
  step: (names, input, output) => {
    if (input.kind === 'list') {
      const isSo = output === undefined || (output !== 'done' && output.toSorted().join(' ') === names.join(' '));
      return isSo ? names : undefined;
    }
    if (names.includes(input.name) === (input.kind === 'add')) return undefined;
    return input.kind === 'add' ? [...names, input.name].sort() : names.filter((name) => name !== input.name);
  },
};
