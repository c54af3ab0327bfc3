/** Lines over the last hour. What they are at a moment is read in the list below, by pointer, by touch or by arrow keys. */
import { useId, useState } from 'preact/hooks';
import { height, pathOf, roundTop, withoutNothing } from './drawing.ts';
import { type Column, pointsKept } from './hour.ts';

const last = pointsKept - 1;

/** `tone` is a class of main.css. `note`: beside what it is at a point. */
export type Line = Readonly<{
  name: string;
  tone: string;
  column: Column;
  note?: (index: number) => string | undefined;
  /** Mostly nothing: it is drawn where it is something. */
  isRare?: boolean;
}>;

export type Mark = Readonly<{ id: string; at: number; name: string }>;

export function Chart(props: {
  title: string;
  lines: readonly Line[];
  text: (value: number) => string;
  /** What the drawing shows at least. */
  least: number;
  isBinary?: boolean;
  endMs: number;
  stepMs: number;
  /** Before this point nothing is known. */
  knownFrom: number;
  marks: readonly Mark[];
  /** The end is so long ago that it is not now. */
  isOld: boolean;
}) {
  const { title, lines, text, least, isBinary = false, endMs, stepMs, knownFrom, marks, isOld } = props;
  const [pointed, setPointed] = useState<number | undefined>();
  const ids = { title: useId(), told: useId(), cursor: useId() };
  const at = pointed ?? lastKnown(lines);
  const top = roundTop(
    lines.flatMap(({ column }) => column.flatMap((value) => value ?? [])),
    { least, isBinary },
  );
  const valueAt = ({ column, note }: Line, index: number) => {
    const value = column[index] ?? null;
    return value === null ? '–' : `${text(value)}${note?.(index) ?? ''}`;
  };
  const mark = marks.find((one) => Math.abs(one.at - at) <= 1);
  const timeOf = (index: number) => new Date(endMs - (last - index) * stepMs).toLocaleTimeString();
  const moment = timeOf(at);
  const told = lines.map((line) => `${line.name} ${valueAt(line, at)}`).join(', ');
  const point = (event: PointerEvent & { currentTarget: Element }) => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    setPointed(Math.min(last, Math.max(0, Math.round(((event.clientX - left) / width) * last))));
  };
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong>
        <span class="dim">
          {moment}
          {pointed !== undefined && mark !== undefined ? `, ${mark.name}` : ''}
        </span>
      </figcaption>
      <div class="plot" onPointerMove={point} onPointerLeave={() => setPointed(undefined)}>
        <svg
          viewBox={`0 -2 ${last} ${height + 4}`}
          preserveAspectRatio="none"
          role="img"
          aria-labelledby={`${ids.title} ${ids.told}`}
        >
          <title id={ids.title}>{title} over the last hour</title>
          <desc id={ids.told}>
            Up to {text(top)}; at {moment} {told}
          </desc>
          {knownFrom > 0 ? <rect class="plot-unknown" x={0} y={-2} width={knownFrom} height={height + 4} /> : null}
          <path class="plot-grid" d={`M0 0H${last}M0 ${height / 2}H${last}M0 ${height}H${last}`} />
          {marks.map((one) => (
            <path key={one.id} class="plot-mark" d={`M${one.at} -2V${height + 2}`} />
          ))}
          {lines.map(({ name, tone, column, isRare }) => (
            <path
              key={name}
              class={`plot-line ${tone}`}
              d={pathOf(isRare === true ? withoutNothing(column) : column, top)}
            />
          ))}
          {pointed === undefined ? null : <path class="plot-cursor" d={`M${pointed} -2V${height + 2}`} />}
        </svg>
        <span class="plot-top">{text(top)}</span>
        <label class="hidden" for={ids.cursor}>
          {title}: at which moment
        </label>
        <input
          id={ids.cursor}
          type="range"
          min={0}
          max={last}
          value={at}
          aria-valuetext={`${moment}: ${told}`}
          onInput={(event) => setPointed(Number(event.currentTarget.value))}
          onBlur={() => setPointed(undefined)}
        />
      </div>
      <p class="plot-times dim">
        <span>{isOld ? timeOf(0) : '1 h ago'}</span>
        <span>{isOld ? timeOf(Math.round(last / 2)) : '30 min'}</span>
        <span>{isOld ? timeOf(last) : 'now'}</span>
      </p>
      <ul class={isBinary ? 'legend legend-wide' : 'legend'}>
        {lines.map((line) => (
          <li key={line.name} class={line.tone}>
            {line.name} <strong>{valueAt(line, at)}</strong>
          </li>
        ))}
      </ul>
    </figure>
  );
}

/** Where nobody points. */
function lastKnown(lines: readonly Line[]): number {
  const found = Math.max(...lines.map(({ column }) => column.findLastIndex((value) => value !== null)));
  return found >= 0 ? found : last;
}
