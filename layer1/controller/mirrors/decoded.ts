/**
 * Resources that were read before and are unchanged need no second look: what an entry decodes to depends on its key and
 * revision alone. Reads stay as fresh as the store's; only the work is saved.
 */
import { decodeResource } from '@flynn/resource/record';
import type { Resource, ResourceType } from '@flynn/resource/type';
import type { Entry } from '@flynn/store/store';

/** Some kilobytes each, at the most. */
const maxEntries = 5_000;

export class Decoded<Spec, Status, SpecInput> {
  readonly #type: ResourceType<string, Spec, Status, SpecInput>;
  readonly #known = new Map<string, Resource<Spec, Status>>();

  constructor(type: ResourceType<string, Spec, Status, SpecInput>) {
    this.#type = type;
  }

  of(entry: Entry): Resource<Spec, Status> {
    const known = this.#known.get(entry.key);
    if (known?.revision === entry.modRevision) return known;
    const decoded = decodeResource(this.#type, entry);
    this.#known.delete(entry.key);
    this.#known.set(entry.key, decoded);
    if (this.#known.size > maxEntries) for (const oldest of this.#known.keys().take(1)) this.#known.delete(oldest);
    return decoded;
  }
}
