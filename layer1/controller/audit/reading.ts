/** The trail as people read it, and how it is kept from growing for ever. */
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { decodeJson } from '@flynn/store/codec';
import type { Compare, Store } from '@flynn/store/store';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import type { Deps } from '../deps.ts';
import { appType } from '../resources.ts';
import { audit } from './api.ts';
import { auditEntrySchema } from './model.ts';
import type { AuditEntry } from './model.ts';
import { superfluous } from './pruning.ts';
import { auditRoot, keyOfId, timeOfId } from './trail.ts';

const dayMs = 86_400_000;
export const keepDays = 90;
export const keepEntries = 20_000;
/** A transaction holds a hundred operations on any store. */
const batchSize = 100;
const minPiece = 100;
const maxPiece = 1_000;

export function auditHandlers(deps: Deps): Handler[] {
  return [
    handle(audit.list, async (call) => {
      const { query, signal } = call;
      const isVisible = await visibility(deps, principalOf(call), signal);
      const isWanted = (entry: AuditEntry): boolean =>
        (query.app === undefined || entry.app?.id === query.app || entry.app?.name === query.app) &&
        (query.user === undefined || entry.actor.name === query.user || entry.actor.userId === query.user) &&
        isVisible(entry);
      const found: AuditEntry[] = [];
      for await (const entry of newestFirst(deps.store, query, signal)) {
        if (isWanted(entry)) found.push(entry);
        if (found.length >= query.limit) break;
      }
      return found;
    }),
  ];
}

/** As far as `since`, in pieces from the end: who wants the newest does not pay for the rest. */
async function* newestFirst(
  store: Store,
  query: { limit: number; since?: string | undefined; before?: string | undefined },
  signal: AbortSignal,
): AsyncGenerator<AuditEntry> {
  let before = query.before === undefined ? undefined : keyOfId(query.before);
  for (let count = Math.max(minPiece, query.limit); ; count = maxPiece) {
    const page = before === undefined ? {} : { before };
    const { entries } = await store.list(auditRoot, { newest: count, ...page, signal });
    for (const { key, value } of entries.toReversed()) {
      const entry = readEntry(key, value);
      if (entry === undefined) continue;
      if (query.since !== undefined && Date.parse(entry.at) < Date.parse(query.since)) return;
      yield entry;
    }
    before = entries[0]?.key;
    if (entries.length < count || before === undefined) return;
  }
}

/**
 * One that cannot be read does not take away the others. When it was is in its key; undefined where that is none of the trail. For
 * admins, who have to know that there is something: whose it is, and of which app, is in what cannot be read.
 */
function readEntry(key: string, value: string): AuditEntry | undefined {
  try {
    return decodeJson(auditEntrySchema, value, key);
  } catch {
    const id = key.slice(key.lastIndexOf('/') + 1);
    const ms = timeOfId(id);
    if (ms === undefined) return undefined;
    return {
      id,
      at: new Date(ms).toISOString(),
      requestId: '',
      actor: { kind: 'service', name: 'unknown' },
      action: 'an entry that cannot be read',
      params: {},
      from: { address: '' },
      outcome: 'unreadable',
      error: 'this entry is damaged, or of a later version of flynn',
      changes: [],
    };
  }
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

async function visibility(
  { resources }: Deps,
  principal: Principal,
  signal: AbortSignal,
): Promise<(entry: AuditEntry) => boolean> {
  if (principal.isAdmin) return () => true;
  const apps = await resources.list(appType, { signal });
  const own = new Set(
    apps.filter(({ id, spec }) => principal.levelOn({ id, isSystem: spec.isSystem }) === 'admin').map(({ id }) => id),
  );
  const { userId } = principal;
  return ({ app, actor }) =>
    (app !== undefined && own.has(app.id)) ||
    (userId !== undefined && actor.userId === userId && principal.limits.appIds === undefined);
}

/** Forgets what is too old, and of what is too much what can be done without best: see pruning.ts. */
export async function pruneAudit(
  store: Store,
  options: { nowMs: number; keep?: number; epoch: Compare; signal: AbortSignal },
): Promise<void> {
  const { nowMs, keep = keepEntries, epoch, signal } = options;
  const { entries } = await store.list(auditRoot, { signal });
  const firstDay = dayOf(nowMs - keepDays * dayMs);
  const isOld = ({ key }: { key: string }): boolean => key.slice(auditRoot.length) < firstDay;
  const young = entries.filter((entry) => !isOld(entry));
  const gone = [...entries.filter(isOld).map(({ key }) => key), ...superfluous(young, keep)];
  for (let at = 0; at < gone.length; at += batchSize) {
    const then = gone.slice(at, at + batchSize).map((key) => ({ delete: key }));
    await store.transact({ compare: [epoch], then }, { signal });
  }
}
