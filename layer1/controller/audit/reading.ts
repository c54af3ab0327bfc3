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
import { auditRoot } from './trail.ts';

const dayMs = 86_400_000;
export const keepDays = 90;
export const keepEntries = 20_000;
/** A transaction holds a hundred operations on any store. */
const batchSize = 100;

export function auditHandlers(deps: Deps): Handler[] {
  return [
    handle(audit.list, async (call) => {
      const { query, signal } = call;
      const isVisible = await visibility(deps, principalOf(call), signal);
      const isWanted = (entry: AuditEntry): boolean =>
        (query.app === undefined || entry.app?.id === query.app || entry.app?.name === query.app) &&
        (query.user === undefined || entry.actor.name === query.user || entry.actor.userId === query.user) &&
        (query.since === undefined || Date.parse(entry.at) >= Date.parse(query.since)) &&
        (query.before === undefined || entry.id < query.before) &&
        isVisible(entry);
      const oldest = query.since === undefined ? deps.now() - (keepDays + 1) * dayMs : Date.parse(query.since);
      const found: AuditEntry[] = [];
      for (let at = deps.now(); dayOf(at) >= dayOf(oldest) && found.length < query.limit; at -= dayMs) {
        const { entries } = await deps.store.list(`${auditRoot}${dayOf(at)}/`, { signal });
        const day = entries.map(({ key, value }) => decodeJson(auditEntrySchema, value, key));
        found.push(...day.filter(isWanted).toReversed());
      }
      return found.slice(0, query.limit);
    }),
  ];
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

/** Forgets what is too old, and the oldest of what is too much. */
export async function pruneAudit(
  store: Store,
  options: { nowMs: number; keep?: number; epoch: Compare; signal: AbortSignal },
): Promise<void> {
  const { nowMs, keep = keepEntries, epoch, signal } = options;
  const { entries } = await store.list(auditRoot, { signal });
  const firstDay = dayOf(nowMs - keepDays * dayMs);
  const keys = entries.map(({ key }) => key);
  const tooMany = Math.max(0, keys.length - keep);
  const gone = keys.filter((key, index) => index < tooMany || key.slice(auditRoot.length) < firstDay);
  for (let at = 0; at < gone.length; at += batchSize) {
    const then = gone.slice(at, at + batchSize).map((key) => ({ delete: key }));
    await store.transact({ compare: [epoch], then }, { signal });
  }
}
