/** The world as it is followed, and who wants to know that it changed. */
import type { self } from '@flynn/controller/access/api';
import type { Identity } from '@flynn/controller/access/model';
import { apiUrl, type Api } from '../api/client.ts';
import { follow, type Link, pause } from '../api/following.ts';
import { Failure } from '../api/failure.ts';
import { readEvents, type StreamEvent } from '../api/streams.ts';
import { toldKinds, World } from './world.ts';

/** Changes come in bursts: pages are drawn anew so often at most. */
const drawEveryMs = 80;

/** INVARIANT. Listeners are told after what they read has changed, and never while an event is taken. */
export class WorldFeed {
  readonly world = new World();
  #link: Link = { is: 'connecting' };
  #version = 0;
  /** Of the last event that the world has taken with all before it. */
  #lastId: string | undefined;
  /** Who it is told to, with what they may see of it. */
  #identity: string;
  readonly #listeners = new Set<() => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(identity: Identity) {
    this.#identity = JSON.stringify(identity);
  }

  get link(): Link {
    return this.#link;
  }

  /** Another one whenever something changed. */
  get version(): number {
    return this.#version;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Resolves when the signal aborts. Run again it goes on from there: what changed meanwhile is told, and not all there is. */
  async run(api: Api, signal: AbortSignal): Promise<void> {
    await follow({
      open: (lastEventId) => this.#open(api, lastEventId, signal),
      after: this.#lastId,
      onBegin: () => {
        this.#lastId = undefined;
        this.world.begin();
      },
      onEvent: (event) => {
        this.world.take(event);
        this.#lastId = event.id ?? this.#lastId;
        this.#tellSoon();
      },
      onLink: (link) => {
        this.#link = link;
        this.#tellSoon();
      },
      signal,
      wait: pause,
    });
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** To go on would neither tell what somebody may see only since, nor forget what they may not any more: then all is told anew. */
  async #open(api: Api, lastEventId: string | undefined, signal: AbortSignal): Promise<AsyncIterable<StreamEvent>> {
    if (lastEventId !== undefined) {
      const identity = JSON.stringify(await api.call<typeof self.get>('GET /whoami', {}, { signal }));
      if (identity !== this.#identity) {
        this.#identity = identity;
        this.#lastId = undefined;
        throw new Failure('conflict', 'what you may see has changed', { expired: true });
      }
    }
    const url = apiUrl('/events', { query: { types: toldKinds.join(',') } });
    return readEvents(await api.stream(url, { signal, lastEventId }));
  }

  #tellSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#version += 1;
      for (const listener of this.#listeners) listener();
    }, drawEveryMs);
  }
}
