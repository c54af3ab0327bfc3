/**
 * All hosts as columns, and for each class of hosts a grid that finds the one that fits best: what placing reads, and what
 * plans claim from as they go. One thread's own: schedulers never share a table, they share the store.
 */
import { FlynnError } from '@flynn/kit/errors';
import type { Claim, Constraint, Demand } from '../cell.ts';
import type { Resources } from '../resources.ts';
import { Columns } from './columns.ts';
import { gridLevels, levelOf, scaleFor, type Grid } from './grid.ts';
import { HostClasses, hostAttribute, passes, type Attributes, type HostClass } from './host-classes.ts';
import { HostPorts, type TakenPorts } from './host-ports.ts';
import { Selection } from './selection.ts';

export type HostSpec = Readonly<{
  id: string;
  capacity: Resources;
  /** The host's own with the operators' tags over them. */
  attributes: Attributes;
  /** Whether new jobs may be placed here: neither cordoned nor draining. */
  isOpen: boolean;
}>;

/** This scheduler is number `slice` of `of`: it looks for room in its own share of the hosts first. */
export type HomeSlice = Readonly<{ slice: number; of: number }>;

/** One host in so many is on the margin of its slice. */
const marginPart = 5;

const noConstraints: readonly Constraint[] = [];

export class HostTable {
  readonly columns: Columns;
  readonly #ports = new HostPorts();
  readonly #classes = new HostClasses();
  readonly #indexes = new Map<string, number>();
  readonly #ids: (string | undefined)[] = [];
  readonly #attributes: (Attributes | undefined)[] = [];
  readonly #classOf: (HostClass | undefined)[] = [];
  readonly #freeIndexes: number[] = [];
  #isOpen: Uint8Array;
  #hash: Uint32Array;
  /** The host's cell in its class's grid, -1 when it is in none, and its position there. */
  #cell: Int16Array;
  #position: Int32Array;
  #memoryScale = 1;
  #cpuScale = 1;
  #home: HomeSlice = { slice: 0, of: 1 };
  /** Changes with whatever a selection depends on. */
  #layout = 0;
  readonly #selections = new WeakMap<readonly Constraint[], { layout: number; selection: Selection }>();
  readonly #byValue = new Map<string, Map<string, number[]>>();

  constructor(capacity = 64) {
    this.columns = new Columns(capacity);
    this.#isOpen = new Uint8Array(capacity);
    this.#hash = new Uint32Array(capacity);
    this.#cell = new Int16Array(capacity);
    this.#position = new Int32Array(capacity);
  }

  /** How many hosts there are. */
  get size(): number {
    return this.#indexes.size;
  }

  /** Indexes are below this; some of them may be nobody's (`idOf` is undefined). */
  get end(): number {
    return this.#ids.length;
  }

  /** Bytes of the columns, without ids, attributes, ports and grids. */
  get columnBytes(): number {
    return [this.#isOpen, this.#hash, this.#cell, this.#position].reduce(
      (sum, column) => sum + column.byteLength,
      this.columns.byteLength,
    );
  }

  get home(): HomeSlice {
    return this.#home;
  }

  /** Stays the same as long as the host is in the table; afterwards another host may get it. */
  indexOf(id: string): number | undefined {
    return this.#indexes.get(id);
  }

  idOf(index: number): string | undefined {
    return this.#ids[index];
  }

  isOpen(index: number): boolean {
    return this.#isOpen[index] === 1;
  }

  isHome(index: number): boolean {
    return this.#sliceOf(index) === this.#home.slice;
  }

  classOf(index: number): HostClass | undefined {
    return this.#classOf[index];
  }

  /** `host` is its id, whatever its attributes say. */
  valueOf(index: number, attribute: string): string | undefined {
    return attribute === hostAttribute ? this.#ids[index] : this.#attributes[index]?.[attribute];
  }

  /** A new host, empty, or what is new of a known one: what is claimed stays claimed. */
  put(spec: HostSpec): number {
    const known = this.#indexes.get(spec.id);
    const index = known ?? this.#freeIndexes.pop() ?? this.#ids.length;
    if (index >= this.columns.size) this.#grow(Math.max(64, index * 2));
    const { memoryBytes, cpuMillis } = spec.capacity;
    if (known === undefined) {
      this.columns.reset(index, memoryBytes, cpuMillis);
      this.#cell[index] = -1;
      this.#hash[index] = hashOf(spec.id);
      this.#indexes.set(spec.id, index);
      this.#ids[index] = spec.id;
    } else {
      this.#leave(index);
      const used = this.usedOf(index);
      this.columns.memoryCapacity[index] = memoryBytes;
      this.columns.cpuCapacity[index] = cpuMillis;
      this.columns.memoryFree[index] = memoryBytes - used.memoryBytes;
      this.columns.cpuFree[index] = cpuMillis - used.cpuMillis;
    }
    this.#isOpen[index] = spec.isOpen ? 1 : 0;
    this.#attributes[index] = spec.attributes;
    this.#changeLayout();
    const isClassed = this.#classify(index);
    if (!isClassed || memoryBytes > this.#memoryScale || cpuMillis > this.#cpuScale) this.#arrange();
    else this.#enter(index);
    return index;
  }

  remove(id: string): boolean {
    const index = this.#indexes.get(id);
    if (index === undefined) return false;
    this.#leave(index);
    this.#ports.set(index, {});
    this.#indexes.delete(id);
    this.#ids[index] = undefined;
    this.#attributes[index] = undefined;
    this.#classOf[index] = undefined;
    this.#freeIndexes.push(index);
    this.#changeLayout();
    return true;
  }

  /** Whether there is room: constraints and whether the host is open are not looked at. */
  fits(index: number, demand: Demand, count = 1): boolean {
    return (
      this.columns.fits(index, demand.memoryBytes, demand.cpuMillis, count) &&
      this.takenPort(index, demand) === undefined
    );
  }

  /** For how many jobs there is room, at most `limit`. */
  roomFor(index: number, demand: Demand, limit: number): number {
    if (this.takenPort(index, demand) !== undefined) return 0;
    return this.columns.roomFor(index, demand.memoryBytes, demand.cpuMillis, limit);
  }

  /** The first of the demand's host ports that another family holds. */
  takenPort(index: number, demand: Demand): number | undefined {
    return this.#ports.findTaken(index, demand);
  }

  /** Takes, whether it fits or not: whoever must not over-commit asks `fits` first. */
  claim(index: number, demand: Demand, count = 1): void {
    this.columns.claim(index, demand.memoryBytes, demand.cpuMillis, count);
    this.#ports.claim(index, demand, count);
    this.#move(index);
  }

  release(index: number, demand: Demand, count = 1): void {
    this.columns.release(index, demand.memoryBytes, demand.cpuMillis, count);
    this.#ports.release(index, demand, count);
    this.#move(index);
  }

  /** What is claimed from now on, whatever was before: as the store's claim says. */
  setUsed(index: number, used: Pick<Claim, 'memoryBytes' | 'cpuMillis'> & { ports?: TakenPorts }): void {
    const { columns } = this;
    columns.memoryFree[index] = (columns.memoryCapacity[index] ?? 0) - used.memoryBytes;
    columns.cpuFree[index] = (columns.cpuCapacity[index] ?? 0) - used.cpuMillis;
    columns.sequence[index] = (columns.sequence[index] ?? 0) + 1;
    this.#ports.set(index, used.ports ?? {});
    this.#move(index);
  }

  usedOf(index: number): { memoryBytes: number; cpuMillis: number; ports: TakenPorts } {
    const { memoryCapacity, memoryFree, cpuCapacity, cpuFree } = this.columns;
    return {
      memoryBytes: (memoryCapacity[index] ?? 0) - (memoryFree[index] ?? 0),
      cpuMillis: (cpuCapacity[index] ?? 0) - (cpuFree[index] ?? 0),
      ports: this.#ports.of(index),
    };
  }

  setHome(home: HomeSlice): void {
    if (home.of < 1 || home.slice < 0 || home.slice >= home.of) {
      throw new FlynnError('invalid', `home slice ${home.slice} of ${home.of} does not exist`);
    }
    if (home.slice === this.#home.slice && home.of === this.#home.of) return;
    for (const index of this.#indexes.values()) this.#leave(index);
    this.#home = home;
    this.#changeLayout();
    for (const index of this.#indexes.values()) this.#enter(index);
  }

  /** The same array gives the same answer without a second look, until hosts come, go or change. */
  select(constraints: readonly Constraint[] = noConstraints, spread: readonly string[] = []): Selection {
    let isNew = false;
    for (const { attribute } of constraints) isNew = this.#classes.ask(attribute) || isNew;
    for (const attribute of spread) isNew = this.#classes.ask(attribute) || isNew;
    if (isNew) this.#arrange();
    const known = this.#selections.get(constraints);
    if (known?.layout === this.#layout) return known.selection;
    const perHost = constraints.filter(({ attribute }) => this.#classes.isWide(attribute));
    const perClass = constraints.filter((constraint) => !perHost.includes(constraint));
    const listed = perHost.find(({ operator }) => operator === 'in');
    const parts = {
      classes: this.#classes.all.filter(({ values }) => perClass.every((c) => passes(c, values.get(c.attribute)))),
      perHost: perHost.filter(({ operator }) => operator !== 'distinct'),
      listed: listed && [...new Set(listed.values)].flatMap((value) => this.#hostsWith(listed.attribute, value)),
    };
    const selection = new Selection(parts, {
      of: this.#home.of,
      slice: (index) => this.#sliceOf(index),
      isMargin: (index) => this.#isMargin(index),
    });
    this.#selections.set(constraints, { layout: this.#layout, selection });
    return selection;
  }

  isWide(attribute: string): boolean {
    return this.#classes.isWide(attribute);
  }

  #sliceOf(index: number): number {
    return (this.#hash[index] ?? 0) % this.#home.of;
  }

  #isMargin(index: number): boolean {
    return this.#home.of > 1 && Math.floor((this.#hash[index] ?? 0) / this.#home.of) % marginPart === 0;
  }

  #hostsWith(attribute: string, value: string): readonly number[] {
    if (attribute === hostAttribute) {
      const index = this.#indexes.get(value);
      return index === undefined ? [] : [index];
    }
    const known = this.#byValue.get(attribute);
    if (known !== undefined) return known.get(value) ?? [];
    const lists = Map.groupBy(this.#indexes.values(), (index) => this.valueOf(index, attribute) ?? '');
    this.#byValue.set(attribute, lists);
    return lists.get(value) ?? [];
  }

  #changeLayout(): void {
    this.#layout += 1;
    this.#byValue.clear();
  }

  /** All classes and grids from the start. */
  #arrange(): void {
    const { memoryCapacity, cpuCapacity } = this.columns;
    const indexes = [...this.#indexes.values()];
    this.#memoryScale = scaleFor(
      indexes.reduce((most, i) => Math.max(most, memoryCapacity[i] ?? 0), this.#memoryScale),
    );
    this.#cpuScale = scaleFor(indexes.reduce((most, i) => Math.max(most, cpuCapacity[i] ?? 0), this.#cpuScale));
    this.#classes.clear();
    while (!indexes.every((index) => this.#classify(index))) this.#classes.giveUpWidest();
    for (const index of indexes) {
      this.#cell[index] = -1;
      this.#enter(index);
    }
    this.#changeLayout();
  }

  #classify(index: number): boolean {
    const own = this.#classes.of(this.#attributes[index] ?? {});
    this.#classOf[index] = own;
    return own !== undefined;
  }

  #cellOf(index: number): number {
    const cpu = levelOf(this.columns.cpuFree[index] ?? 0, this.#cpuScale);
    return cpu * gridLevels + levelOf(this.columns.memoryFree[index] ?? 0, this.#memoryScale);
  }

  /** The cell a demand begins at: hosts in higher rows and columns fit for certain, in the same row or column perhaps. */
  levelsOf(demand: Demand): { cpu: number; memory: number } {
    return { cpu: levelOf(demand.cpuMillis, this.#cpuScale), memory: levelOf(demand.memoryBytes, this.#memoryScale) };
  }

  #gridOf(index: number): Grid | undefined {
    const own = this.#classOf[index];
    return this.isHome(index) ? own?.home : own?.away;
  }

  #enter(index: number): void {
    const grid = this.#gridOf(index);
    if (grid === undefined || this.#isOpen[index] !== 1) return;
    const cell = this.#cellOf(index);
    this.#cell[index] = cell;
    this.#position[index] = grid.add(cell, index);
  }

  #leave(index: number): void {
    const cell = this.#cell[index] ?? -1;
    if (cell < 0) return;
    const position = this.#position[index] ?? 0;
    const moved = this.#gridOf(index)?.remove(cell, position) ?? -1;
    if (moved >= 0) this.#position[moved] = position;
    this.#cell[index] = -1;
  }

  #move(index: number): void {
    const cell = this.#cell[index] ?? -1;
    if (cell < 0 || cell === this.#cellOf(index)) return;
    this.#leave(index);
    this.#enter(index);
  }

  #grow(size: number): void {
    this.columns.grow(size);
    this.#isOpen = filled(new Uint8Array(size), this.#isOpen);
    this.#hash = filled(new Uint32Array(size), this.#hash);
    this.#cell = filled(new Int16Array(size), this.#cell);
    this.#position = filled(new Int32Array(size), this.#position);
  }
}

function filled<Column extends { set(values: Column): void }>(larger: Column, values: Column): Column {
  larger.set(values);
  return larger;
}

/** FNV-1a with a final mix: schedulers agree on whose a host is without talking. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b);
  return (hash ^ (hash >>> 16)) >>> 0;
}
