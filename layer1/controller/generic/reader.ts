/** What views look up beside the object they are of: one by one for one object, each type once for many. */
import type { ResourceService } from '@flynn/resource/service';
import { isOwnedBy } from '@flynn/resource/tombstone';
import type { AnyType, Owner, Resource, ResourceType } from '@flynn/resource/type';

type Type<Spec, Status, SpecInput> = ResourceType<string, Spec, Status, SpecInput>;

/** What it answers is what is in the store now or later, never what was there before it was made. */
export interface ResourceReader {
  find<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    id: string,
  ): Promise<Resource<Spec, Status> | undefined>;
  owned<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    owner: Owner,
  ): Promise<readonly Resource<Spec, Status>[]>;
}

export function readOne(resources: ResourceService, signal: AbortSignal): ResourceReader {
  return {
    find: (type, id) => resources.find(type, id, { signal }),
    owned: (type, owner) => resources.list(type, { owner, signal }),
  };
}

/** For one answer: what changes meanwhile is not seen. */
export function readMany(resources: ResourceService, signal: AbortSignal): ResourceReader {
  const listings = new Map<AnyType, Promise<Listing>>();
  const listingOf = (type: AnyType): Promise<Listing> => {
    const known = listings.get(type) ?? resources.list(type, { signal }).then(indexed);
    listings.set(type, known);
    return known;
  };
  return {
    async find<Spec, Status, SpecInput>(type: Type<Spec, Status, SpecInput>, id: string) {
      // The listing is of exactly this type, whose schemas read it.
      return (await listingOf(type)).byId.get(id) as Resource<Spec, Status> | undefined;
    },
    async owned<Spec, Status, SpecInput>(type: Type<Spec, Status, SpecInput>, owner: Owner) {
      const all = (await listingOf(type)).byOwner.get(`${owner.type}/${owner.id}`) ?? [];
      return all.filter((one) => isOwnedBy(one, owner)) as Resource<Spec, Status>[];
    },
  };
}

type Listing = { byId: Map<string, Resource<unknown, unknown>>; byOwner: Map<string, Resource<unknown, unknown>[]> };

function indexed(all: readonly Resource<unknown, unknown>[]): Listing {
  const byOwner = new Map<string, Resource<unknown, unknown>[]>();
  for (const resource of all) {
    const { owner } = resource;
    if (owner === undefined) continue;
    const key = `${owner.type}/${owner.id}`;
    const known = byOwner.get(key);
    if (known === undefined) byOwner.set(key, [resource]);
    else known.push(resource);
  }
  return { byId: new Map(all.map((resource) => [resource.id, resource])), byOwner };
}
