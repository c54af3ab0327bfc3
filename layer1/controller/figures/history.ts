/** The last hour of all apps: what there is room for, and nothing of apps that are gone. */
import { requestFields, typeFields } from './model.ts';
import type { RequestField, TypeField } from './model.ts';
import type { RequestRow, RequestRows } from './requests.ts';
import { Ring, stepsKept } from './ring.ts';
import type { Row, Step } from './ring.ts';

export type TypeRow = Row<TypeField>;

/** Of one app: more than anybody has, and few enough that nobody takes the room of all by calling types anew. */
const maxTypes = 32;

/** What one look saw. `appIds`: all apps that there are. */
export type Sample = Readonly<{
  appIds: ReadonlySet<string>;
  /** By app and type. */
  types: ReadonlyMap<string, ReadonlyMap<string, TypeRow>>;
  requests: RequestRows;
}>;

export type AppHistory = Readonly<{
  types: ReadonlyMap<string, Pick<Ring<TypeField>, 'at' | 'column'>>;
  requests: Pick<Ring<RequestField>, 'at' | 'column'> | undefined;
}>;

type Kept = { types: Map<string, Kind<TypeField>>; requests: Kind<RequestField> | undefined };
/** `usedAt`: when it had last what is more than nothing. */
type Kind<Field extends string> = { ring: Ring<Field>; usedAt: Step };

const idle: TypeRow = { jobs: 0, cpu: 0, memoryBytes: 0, memoryLimitBytes: 0 };

/**
 * INVARIANTS. Once all rings of all apps together are of `roomBytes` there is no other one: what comes then has no history until
 * something goes. A type without jobs, and an app without requests, have a ring for an hour after the last of them, and not before
 * the first; of an app that has more than `maxTypes`, those without jobs go before.
 */
export class FiguresHistory {
  readonly #roomBytes: number;
  readonly #apps = new Map<string, Kept>();
  #leftOut: ReadonlySet<string> = new Set();
  #first: Step | undefined;
  #last: Step | undefined;
  #bytes = 0;

  constructor(roomBytes: number) {
    this.#roomBytes = roomBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Of the first look that is kept, and of the last one; undefined before there was one. */
  get span(): Readonly<{ first: Step; last: Step }> | undefined {
    if (this.#first === undefined || this.#last === undefined) return undefined;
    return { first: Math.max(this.#first, this.#last - stepsKept + 1), last: this.#last };
  }

  /** Of an app of which nothing was seen there is nothing. */
  of(appId: string): AppHistory | undefined {
    const kept = this.#apps.get(appId);
    if (kept === undefined) return undefined;
    const types = new Map([...kept.types].map(([type, { ring }]) => [type, ring]));
    return { types, requests: kept.requests?.ring };
  }

  isLeftOut(appId: string): boolean {
    return this.#leftOut.has(appId);
  }

  note(step: Step, { appIds, types, requests }: Sample): void {
    this.#turnBackTo(step);
    for (const id of this.#apps.keys()) if (!appIds.has(id)) this.#forget(id);
    const leftOut = new Set<string>();
    for (const id of appIds) {
      const own = types.get(id);
      const row = requests.rows.get(id) ?? requests.others;
      const isNew = !this.#apps.has(id);
      if (requests.leftOut.has(id)) leftOut.add(id);
      if (isNew && own === undefined && !isUsed(row)) continue;
      const kept = this.#apps.get(id) ?? { types: new Map(), requests: undefined };
      this.#apps.set(id, kept);
      if (!this.#noteTypes(kept, step, own ?? new Map())) leftOut.add(id);
      if (!this.#noteRequests(kept, step, row)) leftOut.add(id);
      if (kept.types.size === 0 && kept.requests === undefined) this.#apps.delete(id);
    }
    this.#leftOut = leftOut;
    this.#first ??= step;
    this.#last = step;
  }

  /** False if there was no room for one. */
  #noteTypes({ types }: Kept, step: Step, rows: ReadonlyMap<string, TypeRow>): boolean {
    let hasRoom = true;
    for (const [type, kind] of types) {
      if (rows.has(type)) continue;
      kind.ring.note(step, idle);
      if (step - kind.usedAt >= stepsKept) this.#drop(types, type, kind);
    }
    for (const [type, row] of rows) {
      const kind = types.get(type) ?? this.#addType(types, rows, step);
      hasRoom &&= kind !== undefined;
      if (kind === undefined) continue;
      types.set(type, kind);
      kind.usedAt = step;
      kind.ring.note(step, row);
    }
    return hasRoom;
  }

  #addType(
    types: Map<string, Kind<TypeField>>,
    rows: ReadonlyMap<string, TypeRow>,
    step: Step,
  ): Kind<TypeField> | undefined {
    if (types.size >= maxTypes) {
      const idles = [...types].filter(([type]) => !rows.has(type));
      const [oldest] = idles.toSorted(([, a], [, b]) => a.usedAt - b.usedAt);
      if (oldest === undefined) return undefined;
      this.#drop(types, ...oldest);
    }
    return this.#add(typeFields, step);
  }

  #noteRequests(kept: Kept, step: Step, row: RequestRow): boolean {
    const known = kept.requests;
    if (known === undefined && !isUsed(row)) return true;
    const kind = known ?? this.#add(requestFields, step);
    if (kind === undefined) return false;
    kept.requests = kind;
    kind.ring.note(step, row);
    if (isUsed(row)) kind.usedAt = step;
    if (step - kind.usedAt < stepsKept) return true;
    this.#bytes -= kind.ring.bytes;
    kept.requests = undefined;
    return true;
  }

  #add<Field extends string>(fields: readonly Field[], step: Step): Kind<Field> | undefined {
    if (this.#bytes >= this.#roomBytes) return undefined;
    const ring = new Ring(fields);
    this.#bytes += ring.bytes;
    return { ring, usedAt: step };
  }

  #drop<Field extends string>(kinds: Map<string, Kind<Field>>, name: string, { ring }: Kind<Field>): void {
    kinds.delete(name);
    this.#bytes -= ring.bytes;
  }

  #forget(appId: string): void {
    const kept = this.#apps.get(appId);
    if (kept === undefined) return;
    this.#apps.delete(appId);
    for (const { ring } of kept.types.values()) this.#bytes -= ring.bytes;
    this.#bytes -= kept.requests?.ring.bytes ?? 0;
  }

  /** Where the clock went back, nothing is told of moments that are yet to come. */
  #turnBackTo(step: Step): void {
    if (this.#last === undefined || this.#last <= step) return;
    if (this.#first !== undefined) this.#first = Math.min(this.#first, step);
    for (const { types, requests } of this.#apps.values()) {
      for (const kind of [...types.values(), ...(requests === undefined ? [] : [requests])]) {
        kind.ring.forgetAfter(step);
        kind.usedAt = Math.min(kind.usedAt, step);
      }
    }
  }
}

function isUsed({ perSecond, inFlight }: RequestRow): boolean {
  return perSecond > 0 || inFlight > 0;
}
