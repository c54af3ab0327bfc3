/** The routes as the controller tells them. */
import { routing } from '@flynn/controller/routes/api';
import type { Route } from '@flynn/controller/model';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import { z } from 'zod';
import { readRoute } from './read-route.ts';

/** The id, of whatever else is said. */
export const idSchema = z.object({ id: z.string() });

export type FeedEvent = { id?: string; event: string; data: unknown };

/** Who is told of routes: all of them at first and whenever something may have been missed, then what changes. */
export interface RouteSink {
  /** These and no others. */
  replace(routes: readonly Route[]): void;
  set(route: Route): void;
  remove(id: string): void;
}

/** Tells several, in this order. */
export function everySink(sinks: readonly RouteSink[]): RouteSink {
  return {
    replace(routes) {
      for (const sink of sinks) sink.replace(routes);
    },
    set(route) {
      for (const sink of sinks) sink.set(route);
    },
    remove(id) {
      for (const sink of sinks) sink.remove(id);
    },
  };
}

export type RouteFeedOptions = Readonly<{
  sink: RouteSink;
  /** What the sink has under that id. */
  known: (id: string) => Route | undefined;
  /** Of the routes that the sink has already. */
  revision?: string | undefined;
  /** They are as the controller has them, each time it says so. */
  onCurrent?: () => void;
  log: Logger;
}>;

/**
 * Follows the controller over any number of connections. The first tells every route there is; what was known before it
 * stays in force until all are there. The next go on at the revision where the last one broke off, unless the controller
 * does not have that any more, or tells none, or something could not be read: then everything is told anew, so that nothing
 * missed is missing for good.
 */
export class RouteFeed {
  readonly #options: RouteFeedOptions;
  #revision: string | undefined;
  /** Told to be there, and not how it is: another controller may be able to say. */
  readonly #unread = new Set<string>();

  constructor(options: RouteFeedOptions) {
    this.#options = options;
    this.#revision = options.revision;
  }

  /** Everything up to it was told, and read; undefined if it was not, or the controller tells none. */
  get revision(): string | undefined {
    return this.#unread.size === 0 ? this.#revision : undefined;
  }

  /** One connection, until it ends. */
  async follow(connect: (lastEventId: string | undefined) => AsyncIterable<FeedEvent>): Promise<void> {
    const { sink, known, onCurrent } = this.#options;
    const after = this.revision;
    let listed: Map<string, Route> | undefined = after === undefined ? new Map() : undefined;
    if (listed !== undefined) {
      this.#revision = undefined;
      this.#unread.clear();
    }
    try {
      for await (const { id, event, data } of connect(after)) {
        if (event === 'set' || event === 'unreadable') {
          const told = idSchema.safeParse(data).data?.id ?? '';
          const read = event === 'set' ? this.#read(data) : undefined;
          if (read === undefined) this.#unread.add(told);
          else this.#unread.delete(told);
          // One that is there, but that nobody can read, stays as it was.
          const route = read ?? known(told);
          if (route !== undefined && listed !== undefined) listed.set(route.id, route);
          else if (route !== undefined) sink.set(route);
        } else if (event === 'remove') {
          const removed = idSchema.parse(data).id;
          this.#unread.delete(removed);
          if (listed === undefined) sink.remove(removed);
          else listed.delete(removed);
        } else if (event === 'current' && listed !== undefined) {
          sink.replace([...listed.values()]);
          listed = undefined;
        }
        if (listed === undefined) this.#revision = id ?? this.#revision;
        if (event === 'current') onCurrent?.();
      }
    } catch (error) {
      // Its history is gone, or it is another cluster's: what was missed cannot be told apart.
      if (after !== undefined && hasCode(error, 'conflict', 'invalid')) this.#revision = undefined;
      throw error;
    }
  }

  #read(data: unknown): Route | undefined {
    const { route, problem } = readRoute(data);
    if (problem === undefined) return route;
    const what = route === undefined ? 'a bad route' : 'a route with settings this version does not understand';
    this.#options.log.error({ data, problem }, `the controller sent ${what}`);
    return route;
  }
}

/** Runs until the signal aborts. While the controller cannot be reached the last known routes stay as they are. */
export async function followRoutes(options: {
  controller: Pick<HttpClient, 'events'>;
  sink: RouteSink;
  known: RouteFeedOptions['known'];
  revision?: string | undefined;
  /** The sink has all routes there are, up to what `revision` answers. */
  onCurrent?: (revision: () => string | undefined) => void;
  signal: AbortSignal;
  log: Logger;
}): Promise<void> {
  const { controller, sink, known, revision, log, onCurrent } = options;
  const feed = new RouteFeed({ sink, known, revision, onCurrent: () => onCurrent?.(() => feed.revision), log });
  const step = async (signal: AbortSignal) => {
    await feed.follow((lastEventId) =>
      controller.events(routing.events, {}, { signal, ...(lastEventId === undefined ? {} : { lastEventId }) }),
    );
    if (!signal.aborted) throw new FlynnError('unavailable', 'the controller ended the stream of routes');
  };
  await forever('following the routes', step, { signal: options.signal, log, maxMs: 2_000 });
}
