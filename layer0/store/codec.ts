/** Entries hold JSON; a schema says what of it is ours. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { z } from 'zod';

export function encodeJson(value: unknown): string {
  const text: string | undefined = JSON.stringify(value);
  if (text === undefined) throw new FlynnError('invalid', `a ${typeof value} cannot be stored as JSON`);
  return text;
}

/** Throws `invalid`, naming the key. */
export function parseJson(text: string, key: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new FlynnError('invalid', `the entry ${key} does not hold JSON: ${messageOf(error)}`, { cause: error });
  }
}

/** Throws `invalid`, naming the key and what is wrong with its value. */
export function checkJson<S extends z.ZodType>(schema: S, json: unknown, key: string): z.output<S> {
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  throw new FlynnError('invalid', `the entry ${key} is not what it should be: ${z.prettifyError(parsed.error)}`, {
    cause: parsed.error,
  });
}

export function decodeJson<S extends z.ZodType>(schema: S, text: string, key: string): z.output<S> {
  return checkJson(schema, parseJson(text, key), key);
}

/** Freezes a value of plain data all the way down. What is frozen already is taken to be frozen all the way. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const inner of Object.values(value)) deepFreeze(inner);
  return Object.freeze(value);
}
