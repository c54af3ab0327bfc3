/** In which turn do images come that are not here? */
import { KeyedMutex } from '@flynn/kit/queue';
import { Slots } from '@flynn/kit/slots';
import type { Image } from '@flynn/scheduler/job-template';

/** By name from hosts and registries, which may be slow or hang; of layers, which are unpacked on this disk. */
const atOnce = { byName: 4, ofLayers: 2 } as const;

/**
 * INVARIANTS. Neither kind waits for the other. Of one group one of each is brought at a time, and of an image by name one for all
 * who want it: who waits for those before has no slot. What nobody's group asks for waits for none of them.
 */
export class ImageTurns {
  readonly #lanes = { byName: new Slots(atOnce.byName), ofLayers: new Slots(atOnce.ofLayers) };
  readonly #ofGroup = new KeyedMutex();
  readonly #ofName = new KeyedMutex();

  run<T>(
    image: Image,
    bring: () => Promise<T>,
    { group, signal }: { group: string | undefined; signal: AbortSignal },
  ): Promise<T> {
    if (group === undefined) return bring();
    const options = { signal };
    const take = (): Promise<T> => {
      // Not so of layers: what is below a stack is made within its slot, and may be somebody's own.
      if (!('name' in image)) return this.#lanes.ofLayers.run(bring, options);
      return this.#ofName.run(image.name, () => this.#lanes.byName.run(bring, options), options);
    };
    return this.#ofGroup.run(`${'name' in image ? 'name' : 'layers'} ${group}`, take, options);
  }
}
