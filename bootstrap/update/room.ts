/** Is there room for another version on a host? Asked of all of them before anything is installed on any. */
import type { HostRoom } from '@flynn/host-agent/update/room';
import type { BundleSize } from '../bundle/size.ts';

/** For what else is written meanwhile: logs, the store, jobs. */
const spareBytes = 100 * 1024 ** 2;

type Place = 'programs' | 'bundles' | 'engine';
type Needs = Readonly<Record<Place, number>>;

const words: Readonly<Record<Place, string>> = {
  programs: 'programs',
  bundles: 'the bundle until it is unpacked',
  engine: 'images',
};

/** What is short, a sentence for each disk; nothing where there is room. `hasFile`: the bundle lies there already. */
export function shortOf(room: HostRoom, bundle: BundleSize, { hasFile }: { hasFile: boolean }): string[] {
  const missing = bundle.images.filter((tag) => !room.images.includes(tag)).length;
  const programs = room.versions.includes(bundle.version) ? 0 : bundle.unpackedBytes;
  const bundles = hasFile ? 0 : bundle.fileBytes;
  // An engine unpacks the whole archive, then takes out of it what it lacks.
  const engine = missing === 0 ? 0 : Math.ceil(bundle.imagesBytes * (1 + missing / bundle.images.length));
  // The bundle has gone when the images are loaded.
  const steps: Needs[] = [
    { programs, bundles, engine: 0 },
    { programs, bundles: 0, engine },
  ];
  const devices = [...new Set([room.programs.device, room.bundles.device, room.engine.device])];
  return devices.flatMap((device) => {
    const needs = steps.map((step) => needsOn(room, device, step)).toSorted((a, b) => b.bytes - a.bytes)[0];
    if (needs === undefined || needs.bytes === 0) return [];
    const free = Math.min(...placesOn(room, device).map((place) => room[place].freeBytes));
    const neededBytes = needs.bytes + spareBytes;
    if (free >= neededBytes) return [];
    const paths = [...new Set(needs.places.map((place) => room[place].path))].join(' and ');
    const parts = needs.places.map((place) => `${words[place]} ${megabytes(needs.step[place])}`).join(', ');
    return [`${megabytes(free)} are free at ${paths}, and ${megabytes(neededBytes)} are needed (${parts})`];
  });
}

const allPlaces: readonly Place[] = ['programs', 'bundles', 'engine'];

function placesOn(room: HostRoom, device: number): Place[] {
  return allPlaces.filter((place) => room[place].device === device);
}

function needsOn(room: HostRoom, device: number, step: Needs): { step: Needs; places: Place[]; bytes: number } {
  const places = placesOn(room, device).filter((place) => step[place] > 0);
  return { step, places, bytes: places.reduce((sum, place) => sum + step[place], 0) };
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1024 ** 2)} MB`;
}
