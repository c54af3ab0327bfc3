/** The workloads that have to be looked at, and when. */
import type { Evaluation } from './cell.ts';

export type Cause = Evaluation['cause'];

type Item = { cause: Cause; dueAt: number; takeoverAt: number };

/**
 * INVARIANTS. A workload is in the list once. Asking for it again never makes it later.
 */
export class Worklist {
  readonly #items = new Map<string, Item>();
  readonly #takeoverMs: number;

  /** `takeoverMs`: how long what is another scheduler's is left to it. */
  constructor(options: { takeoverMs: number }) {
    this.#takeoverMs = options.takeoverMs;
  }

  get size(): number {
    return this.#items.size;
  }

  add(workloadId: string, cause: Cause, now: number, options: { afterMs?: number } = {}): void {
    const dueAt = now + (options.afterMs ?? 0);
    const known = this.#items.get(workloadId);
    this.#items.set(workloadId, {
      cause: known?.cause ?? cause,
      dueAt: Math.min(known?.dueAt ?? Infinity, dueAt),
      takeoverAt: Math.min(known?.takeoverAt ?? Infinity, dueAt + this.#takeoverMs),
    });
  }

  delete(workloadId: string): void {
    this.#items.delete(workloadId);
  }

  /** Takes at most `limit` that are due out of the list, the highest priority first, then the longest waiting. */
  take(options: {
    now: number;
    limit: number;
    isOwn: (workloadId: string) => boolean;
    priorityOf: (workloadId: string) => number;
  }): { workloadId: string; cause: Cause }[] {
    const due = [...this.#items]
      .filter(([workloadId, item]) => this.#dueAt(workloadId, item, options.isOwn) <= options.now)
      .map(([workloadId, item]) => ({ workloadId, item, priority: options.priorityOf(workloadId) }))
      .sort((a, b) => b.priority - a.priority || a.item.dueAt - b.item.dueAt)
      .slice(0, options.limit);
    for (const { workloadId } of due) this.#items.delete(workloadId);
    return due.map(({ workloadId, item }) => ({ workloadId, cause: item.cause }));
  }

  /** When the next one is due; undefined with an empty list. */
  nextAt(isOwn: (workloadId: string) => boolean): number | undefined {
    let next: number | undefined;
    for (const [workloadId, item] of this.#items) {
      next = Math.min(next ?? Infinity, this.#dueAt(workloadId, item, isOwn));
    }
    return next;
  }

  #dueAt(workloadId: string, item: Item, isOwn: (workloadId: string) => boolean): number {
    return isOwn(workloadId) ? item.dueAt : item.takeoverAt;
  }
}

/**
 * Whose is the workload? Of all hosts that are there the one with the highest hash together with it (rendezvous hashing):
 * when a host comes or goes, only its share changes hands. A scheduler that runs on none of them takes everything.
 */
export function isOwnWorkload(workloadId: string, ownId: string, hostIds: Iterable<string>): boolean {
  const own = hash(`${ownId}/${workloadId}`);
  let isHost = false;
  let isHighest = true;
  for (const hostId of hostIds) {
    if (hostId === ownId) {
      isHost = true;
      continue;
    }
    const other = hash(`${hostId}/${workloadId}`);
    if (other > own || (other === own && hostId > ownId)) isHighest = false;
  }
  return isHighest || !isHost;
}

/** FNV-1a with a final mix, so that ids that differ in one character are far apart. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) {
    value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  }
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}
