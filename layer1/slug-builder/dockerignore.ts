/**
 * Which of the source's files does .dockerignore keep out of the context? Its patterns are tied to the root, unlike
 * .gitignore's.
 */
import { posix } from 'node:path';
import { globSource } from './slugignore.ts';

type Rule = { isNegated: boolean; pattern: RegExp };

/** `path` is relative with `/`. What is below a folder that is out is out too, unless a later line takes it back in. */
export function createDockerignore(text: string): (path: string) => boolean {
  const rules = text.split(/\r?\n/).flatMap(parseRule);
  return (path) => {
    const last = rules.findLast(({ pattern }) => pattern.test(path));
    return last !== undefined && !last.isNegated;
  };
}

function parseRule(line: string): Rule[] {
  if (line.startsWith('#')) return [];
  const trimmed = line.trim();
  const isNegated = trimmed.startsWith('!');
  const glob = posix.normalize((isNegated ? trimmed.slice(1) : trimmed).trim() || '.').replace(/^\/+|\/+$/g, '');
  if (glob === '' || glob === '.') return [];
  return [{ isNegated, pattern: new RegExp(`^${globSource(glob)}(?:/.*)?$`) }];
}
