/** Who asks the generic API: whom the gate let in, with the role they hold on each app. */
import type { Caller } from '@flynn/kit/http-gate';
import type { Asking } from '@flynn/resource/access';
import type { Owner } from '@flynn/resource/type';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
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
  readonly #isSystem = new Map<string, boolean>();

  constructor({ resources }: Pick<Deps, 'resources'>, call: { caller?: Caller }) {
    this.#principal = principalOf(call);
    this.#resources = resources;
    const { name, isAdmin, userId, limits } = this.#principal;
    this.name = name;
    this.isOperator = isAdmin;
    if (userId !== undefined && limits.role === 'admin' && limits.appIds === undefined) this.userId = userId;
  }

  readonly roleOn = (owner: Owner | undefined): Role | undefined => {
    const { clusterLevel } = this.#principal;
    const level =
      owner?.type === appType.name
        ? this.#principal.levelOn({ id: owner.id, isSystem: this.#isSystem.get(owner.id) ?? true })
        : clusterLevel;
    return level === 'none' ? undefined : level;
  };

  /** What is needed to judge objects: of one app it is one read, of several one listing. */
  async learn(objects: readonly About[], signal: AbortSignal): Promise<this> {
    if (this.isOperator) return this;
    const ids = new Set(objects.flatMap(appIdsOf).filter((id) => !this.#isSystem.has(id)));
    const [id] = ids;
    if (id === undefined) return this;
    const found =
      ids.size === 1
        ? [await this.#resources.find(appType, id, { signal })]
        : await this.#resources.list(appType, { signal });
    for (const app of found) if (app !== undefined) this.#isSystem.set(app.id, app.spec.isSystem);
    return this;
  }
}

function appIdsOf({ type, id, owner, spec }: About): string[] {
  if (type === appType.name) return [id];
  // The one type whose objects are of several apps.
  if (type === resourceType.name) return resourceType.spec.safeParse(spec).data?.apps.map(({ appId }) => appId) ?? [];
  return owner?.type === appType.name ? [owner.id] : [];
}
