/** Follows objects through whatever breaks the stream: every state that lasts is told, none twice. */
import { objectSchema } from '@flynn/controller/generic/api';
import type { GenericObject } from '@flynn/controller/generic/api';
import { pause } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import type { ServerEvent } from '@flynn/kit/routes';

const retryMs = 500;

export type ObjectChange = { event: 'have' | 'put' | 'delete'; objects: readonly GenericObject[] };

/** Opens the stream of `watch`, from its beginning or after an event. */
export type OpenEvents = (options: { signal: AbortSignal; lastEventId?: string }) => AsyncIterable<ServerEvent>;

/** INVARIANT. `#known` holds the objects that were told, as they were told last. */
export class ObjectWatch {
  readonly #open: OpenEvents;
  readonly #known = new Map<string, GenericObject>();
  #lastEventId: string | undefined;
  #isBegun = false;

  constructor(open: OpenEvents) {
    this.#open = open;
  }

  /** First `have`: all there are. Then one at a time. Ends when the signal aborts; throws what the first try throws. */
  async *changes(signal: AbortSignal): AsyncGenerator<ObjectChange, void, undefined> {
    let isOpen = false;
    while (!signal.aborted) {
      try {
        for await (const change of this.#follow(signal)) {
          isOpen = true;
          yield change;
        }
      } catch (error) {
        if (signal.aborted) return;
        // The history was compacted, or the store restored: what is now is listed and compared with what was told.
        if (hasCode(error, 'conflict')) this.#lastEventId = undefined;
        else if (!isOpen || !hasCode(error, 'unavailable', 'timeout', 'cancelled')) throw error;
      }
      await pause(retryMs, signal);
    }
  }

  async *#follow(signal: AbortSignal): AsyncGenerator<ObjectChange, void, undefined> {
    const lastEventId = this.#lastEventId;
    const isResumed = lastEventId !== undefined;
    const listed = new Map<string, GenericObject>();
    let isCurrent = isResumed;
    const options = { signal, ...(lastEventId === undefined ? {} : { lastEventId }) };
    for await (const { id, event, data } of this.#open(options)) {
      if (event === 'current') {
        isCurrent = true;
        yield* this.#compare(listed);
      } else {
        const object = objectSchema.parse(data);
        if (isCurrent) yield* this.#tell(event === 'delete' ? 'delete' : 'put', object);
        else listed.set(object.metadata.uid, object);
      }
      if (id !== undefined) this.#lastEventId = id;
    }
  }

  *#compare(listed: ReadonlyMap<string, GenericObject>): Generator<ObjectChange> {
    if (!this.#isBegun) {
      this.#isBegun = true;
      for (const [uid, object] of listed) this.#known.set(uid, object);
      yield { event: 'have', objects: [...listed.values()] };
      return;
    }
    for (const [uid, object] of this.#known) if (!listed.has(uid)) yield* this.#tell('delete', object);
    for (const object of listed.values()) yield* this.#tell('put', object);
  }

  *#tell(event: 'put' | 'delete', object: GenericObject): Generator<ObjectChange> {
    const { uid } = object.metadata;
    const before = this.#known.get(uid);
    if (event === 'delete') this.#known.delete(uid);
    else this.#known.set(uid, object);
    // A change that shows nowhere is none.
    if (event === 'put' && JSON.stringify(before) === JSON.stringify(object)) return;
    yield { event, objects: [object] };
  }
}
