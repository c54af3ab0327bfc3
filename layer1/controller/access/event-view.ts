/** What of the stream of changes does a caller get to see? */
import type { Deps } from '../deps.ts';
import type { Kind, Shown } from '../platform/events.ts';
import { keySchema, releaseSchema } from '../model.ts';
import type { App } from '../model.ts';
import { appType } from '../resources.ts';
import type { Principal } from './principal.ts';
import { withoutSecrets } from './redaction.ts';

export type EventView = {
  /** Nothing is kept back. */
  readonly isAll: boolean;
  canSee(appId: string): boolean;
  /** Which apps are the platform's is told by the stream itself. */
  learn(app: App): void;
  /** As the caller may see it; undefined for what is none of their business. */
  show(kind: Kind, shown: Shown): Shown | undefined;
};

export async function eventView(
  deps: Pick<Deps, 'resources'>,
  principal: Principal,
  signal: AbortSignal,
): Promise<EventView> {
  if (principal.isAdmin) return { isAll: true, canSee: () => true, learn: () => {}, show: (_kind, shown) => shown };
  const all = await deps.resources.list(appType, { signal });
  const known = new Map(all.map(({ id, spec }) => [id, kindOf({ id, ...spec })]));
  // One not heard of may be the platform's, or a datastore: those who may see less of that see less of it.
  const appOf = (id: string) => known.get(id) ?? { id, isSystem: true, isDatastore: true };
  const canSee = (id: string): boolean => principal.canSee(appOf(id));
  return {
    isAll: false,
    canSee,
    learn: (app) => void known.set(app.id, kindOf(app)),
    show(kind, shown) {
      if (kind === 'key') {
        const { userId } = keySchema.parse(shown.object);
        return userId !== undefined && userId === principal.ownUserId ? shown : undefined;
      }
      if (shown.appId === undefined || !canSee(shown.appId)) return undefined;
      if (kind !== 'release' || principal.canReadSecrets(appOf(shown.appId))) return shown;
      return { ...shown, object: withoutSecrets(releaseSchema.parse(shown.object)) };
    },
  };
}

function kindOf({ id, isSystem, datastore }: Pick<App, 'id' | 'isSystem' | 'datastore'>) {
  return { id, isSystem, isDatastore: datastore !== undefined };
}
