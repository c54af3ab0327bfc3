/** What a bench says: one measured value, the floor it is held against in the same run, and what it must and should be. */
export type Figure = {
  name: string;
  value: number;
  unit: 's' | 'ms' | 'us' | 'MB' | 'x' | '/s' | '%' | '';
  /** The same work without the platform, measured in the same run; undefined where nothing is left out to compare with. */
  floor?: number;
  /** value / floor. */
  ratio?: number;
  must?: string;
};

export function figure(input: Omit<Figure, 'ratio'>): Figure {
  return { ...input, ...(input.floor ? { ratio: input.value / input.floor } : {}) };
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

export async function timeSeconds(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return (performance.now() - startedAt) / 1_000;
}

function number(value: number | undefined): string {
  return value === undefined ? '-' : value.toFixed(value >= 100 ? 0 : 2);
}

/** Columns that survive `| awk`: two spaces between, no borders. */
export function table(figures: readonly Figure[]): string {
  const rows = [
    ['FIGURE', 'VALUE', 'UNIT', 'FLOOR', 'RATIO', 'MUST'],
    ...figures.map((f) => [f.name, number(f.value), f.unit, number(f.floor), number(f.ratio), f.must ?? '-']),
  ];
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows
    .map((row) =>
      row
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
