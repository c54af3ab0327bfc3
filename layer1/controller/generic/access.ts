/** Who asks the generic API: whom the gate let in, with the role they hold on each app. */
import type { Caller } from '@flynn/kit/http-gate';
import type { Asking } from '@flynn/resource/access';
import type { Owner } from '@flynn/resource/type';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import { isAtLeast } from '../access/roles.ts';
import type { Role } from '../access/roles.ts';
import type { Deps } from '../deps.ts';
import { resourceType } from '../providers/types.ts';
import { appType } from '../resources.ts';

type About = Readonly<{ type: string; id: string; owner?: Owner | undefined; spec?: unknown }>;

/**
 * INVARIANT. What is asked for about an app it has not learned of is answered as for the platform's own: with the least.
 * An app is the platform's or is not for ever, so that what was learned stays true.
 */
export class CallerAsking implements Asking {
  readonly name: string;
  readonly isOperator: boolean;
  /** Of a user, if the token is good for all they may do. */
  readonly userId?: string;
  readonly #principal: Principal;
  readonly #resources: Deps['resources'];
  readonly #known = new Map<string, { isSystem: boolean; isDatastore: boolean }>();

  constructor({ resources }: Pick<Deps, 'resources'>, call: { caller?: Caller }) {
    this.#principal = principalOf(call);
    this.#resources = resources;
    const { name, isAdmin, ownUserId } = this.#principal;
    this.name = name;
    this.isOperator = isAdmin;
    if (ownUserId !== undefined) this.userId = ownUserId;
  }

  readonly roleOn = (owner: Owner | undefined): Role | undefined => {
    const { clusterLevel } = this.#principal;
    const level = owner?.type === appType.name ? this.#principal.levelOn(this.#judged(owner.id)) : clusterLevel;
    return level === 'none' ? undefined : level;
  };

  /** Whether what holds passwords of that owner's objects may be told. */
  mayReadSecrets(owner: Owner | undefined): boolean {
    if (owner?.type !== appType.name) return isAtLeast(this.#principal.clusterLevel, 'developer');
    return this.#principal.canReadSecrets(this.#judged(owner.id));
  }

  #judged(id: string): { id: string; isSystem: boolean; isDatastore: boolean } {
    return { id, ...(this.#known.get(id) ?? { isSystem: true, isDatastore: true }) };
  }

  /** What is needed to judge objects: of one app it is one read, of several one listing. */
  async learn(objects: readonly About[], signal: AbortSignal): Promise<this> {
    if (this.isOperator) return this;
    const ids = new Set(objects.flatMap(appIdsOf).filter((id) => !this.#known.has(id)));
    const [id] = ids;
    if (id === undefined) return this;
    const found =
      ids.size === 1
        ? [await this.#resources.find(appType, id, { signal })]
        : await this.#resources.list(appType, { signal });
    for (const app of found) {
      if (app === undefined) continue;
      this.#known.set(app.id, { isSystem: app.spec.isSystem, isDatastore: app.spec.datastore !== undefined });
    }
    return this;
  }
}

function appIdsOf({ type, id, owner, spec }: About): string[] {
  if (type === appType.name) return [id];
  // The one type whose objects are of several apps.
  if (type === resourceType.name) return resourceType.spec.safeParse(spec).data?.apps.map(({ appId }) => appId) ?? [];
  return owner?.type === appType.name ? [owner.id] : [];
}
