/** Which tag does an image have? One that changes exactly when what it is made of does. */
import { createHash } from 'node:crypto';
import type { ImageRecipe } from './recipes.ts';

/** A file's path, what it contains, and its mode; `digest` stands for the content. */
export type Ingredient = Readonly<{ path: string; digest: string; mode: number }>;

export function tagOf(
  name: string,
  recipe: ImageRecipe,
  ingredients: readonly Ingredient[],
  parentTag: string | undefined,
): string {
  const { files: _files, ...rest } = recipe;
  const text = JSON.stringify(
    canonical({ rest, ingredients: ingredients.toSorted(byPath), parentTag: parentTag ?? '' }),
  );
  return `flynn/${name}:${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
}

export function digestOf(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/** The same value whatever order its keys were written in. */
function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, canonical(inner)]),
  );
}

function byPath(a: Ingredient, b: Ingredient): number {
  return a.path < b.path ? -1 : 1;
}
