/** Columns as lines of a drawing that is as many units wide as there are steps, and 100 high. Pure. */
import type { Column } from './hour.ts';

export const height = 100;

/** The least of round numbers that all is below, and no less than `least`. */
export function roundTop(
  values: readonly number[],
  { least, isBinary = false }: { least: number; isBinary?: boolean },
): number {
  const most = Math.max(least, ...values);
  const base = isBinary ? 2 : 10;
  const power = base ** Math.floor(Math.log(most) / Math.log(base));
  const steps = isBinary ? [1, 1.5, 2] : [1, 1.5, 2, 3, 4, 5, 6, 8, 10];
  // A hair above is none: numbers of the machine are not exact.
  return (steps.find((step) => step * power >= most * (1 - 1e-9)) ?? base) * power;
}

/** A path that is broken where nothing is known; what stands alone is a dot. */
export function pathOf(column: Column, top: number): string {
  let path = '';
  let isDrawn = false;
  for (const [index, value] of column.entries()) {
    if (value === null) {
      isDrawn = false;
      continue;
    }
    const y = Math.round((1 - Math.min(1, value / top)) * height * 10) / 10;
    const isAlone = !isDrawn && (column[index + 1] ?? null) === null;
    path += isDrawn ? `L${index} ${y}` : `M${index} ${y}${isAlone ? 'h.01' : ''}`;
    isDrawn = true;
  }
  return path;
}

/** Without what is nothing, but for where it begins and ends: what is rare is to be seen, and not a line at the bottom. */
export function withoutNothing(column: Column): Column {
  const isNothing = (index: number) => (column[index] ?? 0) === 0;
  return column.map((value, index) =>
    isNothing(index - 1) && isNothing(index) && isNothing(index + 1) ? null : value,
  );
}
