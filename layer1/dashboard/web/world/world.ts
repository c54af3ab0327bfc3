/** What the cluster's stream of changes has told so far. */
import type { App, ControllerEvent, Deployment, Formation, Job, Operation } from '@flynn/controller/model';
import type { RouteView } from '@flynn/controller/routes/api';
import type { StreamEvent } from '../api/streams.ts';
import { Objects } from './objects.ts';

export type Told = Readonly<{
  app: App;
  formation: Formation;
  deployment: Deployment;
  job: Job;
  route: RouteView;
  operation: Operation;
}>;
export type ToldKind = keyof Told;

export const toldKinds = [
  'app',
  'formation',
  'deployment',
  'job',
  'route',
  'operation',
] as const satisfies readonly ToldKind[];

const appOf = ({ appId }: { appId: string }): string => appId;

/**
 * INVARIANT. Between `begin` and the event `current` all there is is told anew; what was known before and is not among it is
 * forgotten at `current`, not earlier: a page that comes back is never empty in between.
 */
export class World {
  readonly #known: { readonly [K in ToldKind]: Objects<Told[K]> } = {
    app: new Objects<App>(() => undefined),
    formation: new Objects<Formation>(appOf),
    deployment: new Objects<Deployment>(appOf),
    job: new Objects<Job>(appOf),
    route: new Objects<RouteView>(appOf),
    operation: new Objects<Operation>(appOf),
  };
  #retold: Set<string> | undefined;
  #isWhole = false;

  /** Everything was told at least once. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  begin(): void {
    this.#retold = new Set();
  }

  take({ event, data }: StreamEvent): void {
    if (event === 'current') {
      this.#forgetUntold();
      this.#isWhole = true;
      return;
    }
    const kind = toldKinds.find((known) => known === event);
    if (kind === undefined) return;
    const { type, id, object } = data as ControllerEvent['data'];
    const known = this.#known[kind] as Pick<Objects<unknown>, 'put' | 'delete'>;
    if (type === 'delete') known.delete(id);
    else {
      known.put(id, object);
      this.#retold?.add(`${kind} ${id}`);
    }
  }

  all<K extends ToldKind>(kind: K): Told[K][] {
    return this.#known[kind].all();
  }

  of<K extends Exclude<ToldKind, 'app'>>(kind: K, appId: string): Told[K][] {
    return this.#known[kind].of(appId);
  }

  app(nameOrId: string): App | undefined {
    return this.#known.app.get(nameOrId) ?? this.all('app').find(({ name }) => name === nameOrId);
  }

  #forgetUntold(): void {
    const retold = this.#retold;
    if (retold === undefined) return;
    for (const kind of toldKinds) {
      for (const id of this.#known[kind].ids()) if (!retold.has(`${kind} ${id}`)) this.#known[kind].delete(id);
    }
    this.#retold = undefined;
  }
}

/** The newest first, whatever the order they were told in. */
export function newestFirst<T extends { createdAt: string; id: string }>(objects: readonly T[]): T[] {
  return objects.toSorted((a, b) =>
    a.createdAt === b.createdAt ? (a.id < b.id ? 1 : -1) : a.createdAt < b.createdAt ? 1 : -1,
  );
}
