/**
 * What does a variable hold that refers to others? Pure. Only what was said to be a reference is read as one: in all other
 * values a `$` is a `$`, whatever follows it.
 *
 *     ${NAME}   what the app's variable NAME holds, which may refer to others itself
 *     $${       ${
 */
import { FlynnError } from '@flynn/kit/errors';
import { envName } from '@flynn/kit/names';

type Values = Readonly<Record<string, string>>;

/** No program can be given a longer one: Linux' MAX_ARG_STRLEN. */
const maxBytes = 128 * 1024;
const maxDepth = 50;
const part = /\$\$\{|\$\{([^}]*)\}?/g;

/**
 * All variables, those of `references` with what they come to. Throws `invalid` for what refers to no variable, to itself,
 * or comes to too much; no value is in the message.
 */
export function resolveReferences(env: Values, references: Values): Record<string, string> {
  const templates = new Map(Object.entries(references));
  const known = new Map(Object.entries(env).filter(([name]) => !templates.has(name)));
  const valueOf = (name: string, path: readonly string[]): string => {
    const value = known.get(name);
    if (value !== undefined) return value;
    const template = templates.get(name);
    if (template === undefined) throw unknown(path.at(-1) ?? name, name);
    if (path.includes(name)) throw circle([...path.slice(path.indexOf(name)), name]);
    if (path.length >= maxDepth) throw tooDeep(path[0] ?? name);
    const resolved = template.replaceAll(part, (text, inner: string | undefined) => {
      if (inner === undefined) return '${';
      if (!text.endsWith('}') || !envName.safeParse(inner).success) throw unreadable(name);
      return valueOf(inner, [...path, name]);
    });
    if (Buffer.byteLength(resolved) > maxBytes) throw tooLong(name);
    known.set(name, resolved);
    return resolved;
  };
  const own = Object.keys(references).map((name) => [name, valueOf(name, [])] as const);
  return { ...env, ...Object.fromEntries(own) };
}

function unknown(from: string, name: string): FlynnError {
  return new FlynnError(
    'invalid',
    `${from} refers to \${${name}}, and the app has no variable ${name}: set it too, or set ${from} anew`,
  );
}

function circle(path: readonly string[]): FlynnError {
  return new FlynnError('invalid', `variables refer to each other in a circle: ${path.join(' → ')}`);
}

function unreadable(name: string): FlynnError {
  return new FlynnError(
    'invalid',
    `${name} has a \${ that names no variable: write \${NAME}, and $\${ for what is to stay \${`,
  );
}

function tooDeep(name: string): FlynnError {
  return new FlynnError(
    'invalid',
    `${name} refers to others through more than ${maxDepth} variables: refer to them directly`,
  );
}

function tooLong(name: string): FlynnError {
  return new FlynnError('invalid', `${name} comes to more than 128 KiB, which no program can be given: refer to less`);
}
