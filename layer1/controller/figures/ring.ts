/** Figures at regular moments, of which the newest are kept: a row for each, in one array of numbers that does not grow. */

/** A moment: how many steps after the epoch. */
export type Step = number;

/** Two points are so far apart … */
export const stepMs = 15_000;
/** … and so many are kept: an hour. */
export const stepsKept = 240;

export type Row<Field extends string> = Readonly<Record<Field, number>>;

/** INVARIANT. What was not noted at a moment is NaN there: nothing that is older, or of a clock that went back, is told for it. */
export class Ring<Field extends string> {
  readonly #fields: readonly Field[];
  /** Single precision: seven digits are more than a chart can show. */
  readonly #values: Float32Array;
  /** Of which something may be known. */
  #last: Step | undefined;

  constructor(fields: readonly Field[]) {
    this.#fields = fields;
    this.#values = new Float32Array(fields.length * stepsKept).fill(Number.NaN);
  }

  get bytes(): number {
    return this.#values.byteLength;
  }

  note(step: Step, row: Row<Field>): void {
    this.forgetAfter(step);
    const last = this.#last ?? step - 1;
    // A moment that was passed over holds what was there a whole round ago.
    for (let at = Math.max(last + 1, step - stepsKept + 1); at < step; at += 1) this.#clear(at);
    for (const [index, field] of this.#fields.entries()) this.#values[this.#place(index, step)] = row[field];
    this.#last = step;
  }

  /** What was noted for later moments was noted by a clock that was wrong. */
  forgetAfter(step: Step): void {
    const last = this.#last;
    if (last === undefined || last <= step) return;
    for (let at = Math.max(step + 1, last - stepsKept + 1); at <= last; at += 1) this.#clear(at);
    this.#last = last - step < stepsKept ? step : undefined;
  }

  at(field: Field, step: Step): number {
    const last = this.#last;
    if (last === undefined || step > last || step <= last - stepsKept) return Number.NaN;
    return this.#values[this.#place(this.#fields.indexOf(field), step)] ?? Number.NaN;
  }

  /** Of moments from the first to the last, both included. */
  column(field: Field, first: Step, last: Step): number[] {
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => this.at(field, first + index));
  }

  #clear(step: Step): void {
    for (const index of this.#fields.keys()) this.#values[this.#place(index, step)] = Number.NaN;
  }

  #place(index: number, step: Step): number {
    return index * stepsKept + (step % stepsKept);
  }
}
