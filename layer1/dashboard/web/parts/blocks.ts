/** A list that grows at its end, in blocks: one that is full stays the same object, and is not drawn anew. Pure. */

export type Block<T> = Readonly<{ key: number; items: readonly T[] }>;
export type Blocks<T> = readonly Block<T>[];

const mostItems = 100;

export function grown<T>(blocks: Blocks<T>, items: readonly T[]): Blocks<T> {
  const last = blocks.at(-1);
  const isOpen = last !== undefined && last.items.length < mostItems;
  const begun = isOpen ? [...last.items, ...items] : items;
  const from = isOpen ? last.key : last === undefined ? 0 : last.key + 1;
  const more = Array.from({ length: Math.ceil(begun.length / mostItems) }, (_, at): Block<T> => {
    return { key: from + at, items: begun.slice(at * mostItems, (at + 1) * mostItems) };
  });
  return [...(isOpen ? blocks.slice(0, -1) : blocks), ...more];
}

/** Without the oldest blocks that this many items do without. */
export function newest<T>(blocks: Blocks<T>, items: number): Blocks<T> {
  let spare = countOf(blocks) - items;
  const first = blocks.findIndex((block) => {
    spare -= block.items.length;
    return spare < 0;
  });
  return first <= 0 ? blocks : blocks.slice(first);
}

export function countOf<T>(blocks: Blocks<T>): number {
  return blocks.reduce((sum, block) => sum + block.items.length, 0);
}
