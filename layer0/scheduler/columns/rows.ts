/** Columns that grow together, and rows that are used again. */

type Column = Uint8Array | Uint32Array | Float64Array;

const firstSize = 256;

/** A kind of row: declares its columns with `u8 u32 f64`, takes rows with `take`, gives them back with `free`. */
export class Rows {
  readonly #columns: { current: Column; grow: (size: number) => Column }[] = [];
  readonly #free: number[] = [];
  #size = firstSize;
  #end = 0;

  /** Rows are below this. */
  get end(): number {
    return this.#end;
  }

  get count(): number {
    return this.#end - this.#free.length;
  }

  get byteLength(): number {
    return this.#columns.reduce((sum, { current }) => sum + current.byteLength, 0);
  }

  u8(onGrow: (column: Uint8Array) => void): Uint8Array {
    return this.#declare(new Uint8Array(this.#size), (size) => new Uint8Array(size), onGrow);
  }

  u32(onGrow: (column: Uint32Array) => void): Uint32Array {
    return this.#declare(new Uint32Array(this.#size), (size) => new Uint32Array(size), onGrow);
  }

  f64(onGrow: (column: Float64Array) => void): Float64Array {
    return this.#declare(new Float64Array(this.#size), (size) => new Float64Array(size), onGrow);
  }

  /** What was in the row before is still there. */
  take(): number {
    const row = this.#free.pop();
    if (row !== undefined) return row;
    if (this.#end === this.#size) {
      this.#size *= 2;
      for (const column of this.#columns) column.current = column.grow(this.#size);
    }
    this.#end += 1;
    return this.#end - 1;
  }

  free(row: number): void {
    this.#free.push(row);
  }

  #declare<C extends Column>(first: C, make: (size: number) => C, onGrow: (column: C) => void): C {
    let last = first;
    this.#columns.push({
      current: first,
      grow: (size) => {
        const next = make(size);
        next.set(last);
        last = next;
        onGrow(next);
        return next;
      },
    });
    return first;
  }
}
