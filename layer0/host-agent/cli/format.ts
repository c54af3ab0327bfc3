/** Columns and quantities for people and for awk. */

/** Two spaces between columns, no borders. Empty cells become `-`. */
export function formatTable(rows: readonly (readonly (string | undefined)[])[]): string {
  const cells = rows.map((row) => row.map((cell) => cell?.replaceAll(/\s+/g, ' ').trim() || '-'));
  const widths: number[] = [];
  for (const row of cells) row.forEach((cell, i) => (widths[i] = Math.max(widths[i] ?? 0, cell.length)));
  return cells
    .map((row) => {
      const line = row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('  ');
      return `${line.trimEnd()}\n`;
    })
    .join('');
}

export function formatBytes(bytes: number | undefined): string {
  if (bytes === undefined) return '-';
  const units = ['B', 'K', 'M', 'G', 'T'];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 10 || unit === 0 ? Math.round(value) : value.toFixed(1)}${units[unit] ?? ''}`;
}

export function formatAge(sinceMs: number | undefined, nowMs: number): string {
  if (sinceMs === undefined) return '-';
  const seconds = Math.max(0, Math.round((nowMs - sinceMs) / 1_000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}
