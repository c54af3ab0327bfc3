/** The world as it is followed, and who wants to know that it changed. */
import { apiUrl, type Api } from '../api/client.ts';
import { follow, type Link, pause } from '../api/following.ts';
import { readEvents } from '../api/streams.ts';
import { toldKinds, World } from './world.ts';

/** Changes come in bursts: pages are drawn anew so often at most. */
const drawEveryMs = 80;

/** INVARIANT. Listeners are told after what they read has changed, and never while an event is taken. */
export class WorldFeed {
  readonly world = new World();
  #link: Link = { is: 'connecting' };
  #version = 0;
  readonly #listeners = new Set<() => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;

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

  /** Resolves when the signal aborts. */
  async run(api: Api, signal: AbortSignal): Promise<void> {
    const url = apiUrl('/events', { query: { types: toldKinds.join(',') } });
    await follow({
      open: async (lastEventId) => readEvents(await api.stream(url, { signal, lastEventId })),
      onBegin: () => this.world.begin(),
      onEvent: (event) => {
        this.world.take(event);
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

  #tellSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#version += 1;
      for (const listener of this.#listeners) listener();
    }, drawEveryMs);
  }
}
