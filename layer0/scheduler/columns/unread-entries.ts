/** What the store has and this version cannot read: which workloads may have something in it? */
import type { Entry, Revision } from '@flynn/store/store';
import { z } from 'zod';
import type { CellKey } from './entries.ts';

/** Told of each: nothing but the workloads that it names. */
const namedSchema = z.object({ workloadId: z.string() });
const groupsSchema = z.object({ groups: z.array(z.unknown()) });

type Unread = Readonly<{ key: CellKey; workloadIds: readonly string[] }>;

/** INVARIANT. A key stands with exactly the workloads that its entry named when it was put last. */
export class UnreadEntries {
  readonly #revisions = new Map<string, Revision>();
  readonly #entries = new Map<string, Unread>();
  readonly #keys = new Map<string, Set<string>>();

  /** The modRevision of each, by key. */
  get revisions(): ReadonlyMap<string, Revision> {
    return this.#revisions;
  }

  put(text: string, key: CellKey, { value, modRevision }: Entry): void {
    this.delete(text);
    const workloadIds = workloadsIn(key, value);
    this.#revisions.set(text, modRevision);
    this.#entries.set(text, { key, workloadIds });
    for (const id of workloadIds) {
      const keys = this.#keys.get(id);
      if (keys === undefined) this.#keys.set(id, new Set([text]));
      else keys.add(text);
    }
  }

  delete(text: string): void {
    const entry = this.#entries.get(text);
    if (entry === undefined) return;
    this.#revisions.delete(text);
    this.#entries.delete(text);
    for (const id of entry.workloadIds) {
      const keys = this.#keys.get(id);
      if (keys?.delete(text) === true && keys.size === 0) this.#keys.delete(id);
    }
  }

  /** Hosts with assignments among them. */
  *assignedHosts(): Generator<string, void, undefined> {
    for (const { key } of this.#entries.values()) if (key.kind === 'assignments') yield key.id;
  }

  /** The first of those that name the workload and that count. */
  find(workloadId: string, counts: (key: CellKey) => boolean): string | undefined {
    for (const text of this.#keys.get(workloadId) ?? []) {
      const entry = this.#entries.get(text);
      if (entry !== undefined && counts(entry.key)) return text;
    }
    return undefined;
  }
}

/** None of what nothing can be told of, such as an assignment that is no JSON: no version of flynn writes one. */
function workloadsIn({ kind, id }: CellKey, value: string): readonly string[] {
  if (kind === 'workloads' || kind === 'plans') return [id];
  if (kind !== 'assignments') return [];
  const { groups = [] } = groupsSchema.safeParse(parsed(value)).data ?? {};
  return [...new Set(groups.flatMap((part) => namedSchema.safeParse(part).data?.workloadId ?? []))];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
