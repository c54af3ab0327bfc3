/** A watch of the generic API: objects as they are, a mark, then what changes of them as it is shown. */
import type { ServerEvent } from '@flynn/kit/routes';
import { mayRead } from '@flynn/resource/access';
import type { ResourceFilter } from '@flynn/resource/watch';
import type { Deps } from '../deps.ts';
import { appType } from '../resources.ts';
import type { CallerAsking } from './access.ts';
import type { GenericObject } from './api.ts';
import type { Kind } from './kind.ts';
import { showObject } from './objects.ts';
import type { Found } from './objects.ts';
import { readMany, readOne } from './reader.ts';
import { withWakes } from './wakes.ts';
import type { Woken } from './wakes.ts';

type WatchOptions = Readonly<{
  filter: ResourceFilter;
  asking: CallerAsking;
  after: number | undefined;
  signal: AbortSignal;
}>;

/** So many are looked up one by one; for more than that each type is listed once. */
const fewObjects = 8;

export async function* watchObjects(deps: Deps, kind: Kind, options: WatchOptions): AsyncGenerator<ServerEvent> {
  const { filter, asking, after } = options;
  const { resources } = deps;
  const ending = new AbortController();
  const signal = AbortSignal.any([options.signal, ending.signal]);
  const { wakes } = kind;
  const told = new Told(deps, kind, options);
  // All there are at first, then one now and then.
  let read = after === undefined ? readMany(resources, signal) : readOne(resources, signal);
  if (after === undefined) await asking.learn(await resources.list(appType, { signal }), signal);
  // What shows of those that were told before the stream broke may have changed without them.
  else if (wakes !== undefined) await told.learn(await resources.list(kind.type, { ...filter, signal }));
  const events = resources.watch(kind.type, {
    filter,
    signal,
    withOwned: kind.showsOwned,
    ...(after === undefined ? {} : { after }),
  });
  const isWoken = after !== undefined;
  const all = wakes === undefined ? events : withWakes(events, (wake) => wakes(deps, wake), { isWoken });
  try {
    for await (const event of all) {
      if ('woken' in event) {
        for await (const data of told.changed(event, signal)) yield { event: 'put', data };
        continue;
      }
      const id = event.resumeAfter === undefined ? {} : { id: String(event.resumeAfter) };
      if (event.type === 'current') {
        read = readOne(resources, signal);
        yield { ...id, event: event.type, data: null };
        continue;
      }
      await asking.learn([event.resource], signal);
      if (!mayRead(kind.type, asking, event.resource)) continue;
      const data = await showObject(deps, kind, event.resource, { read, asking });
      if (wakes !== undefined) told.tell(event.type, event.resource, data);
      yield { ...id, event: event.type, data };
    }
  } finally {
    ending.abort();
  }
}

/** INVARIANT. Holds what was told and not told to be gone, as it was told last: what shows nowhere is not told again. */
class Told {
  readonly #deps: Deps;
  readonly #kind: Kind;
  readonly #options: WatchOptions;
  readonly #known = new Map<string, { resource: Found; text: string }>();

  constructor(deps: Deps, kind: Kind, options: WatchOptions) {
    this.#deps = deps;
    this.#kind = kind;
    this.#options = options;
  }

  /** Told by a stream before this one: how they looked is not known. */
  async learn(resources: readonly Found[]): Promise<void> {
    const { asking, signal } = this.#options;
    await asking.learn(resources, signal);
    for (const resource of resources) {
      if (mayRead(this.#kind.type, asking, resource)) this.#known.set(resource.id, { resource, text: '' });
    }
  }

  tell(type: 'put' | 'delete', resource: Found, shown: GenericObject): void {
    if (type === 'delete') this.#known.delete(resource.id);
    else this.#known.set(resource.id, { resource, text: JSON.stringify(shown) });
  }

  /** Those that look otherwise than they were told, as they look now. */
  async *changed({ woken }: Woken, signal: AbortSignal): AsyncGenerator<GenericObject> {
    const isAffected = ({ owner }: Found) => woken === 'all' || (owner !== undefined && woken.has(owner.id));
    const affected = [...this.#known.values()].filter(({ resource }) => isAffected(resource));
    const { resources } = this.#deps;
    const read = affected.length > fewObjects ? readMany(resources, signal) : readOne(resources, signal);
    for (const { resource, text } of affected) {
      const shown = await showObject(this.#deps, this.#kind, resource, { read, asking: this.#options.asking });
      if (JSON.stringify(shown) === text) continue;
      this.tell('put', resource, shown);
      yield shown;
    }
  }
}
