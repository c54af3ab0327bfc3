/** One after the other: who takes names in discovery is judged by what those before have taken. */
import { createHash } from 'node:crypto';
import type { Piece } from '@flynn/resource/piece';
import type { Deps } from '../deps.ts';
import type { Process } from '../processes/process.ts';
import type { AppResource } from '../resources.ts';
import { namesIn } from './announced.ts';

/** Each stands for many names, so that there are never more of them. */
const turnCount = 64;

type Processes = Readonly<Record<string, Pick<Process, 'ports'>>>;

/**
 * To be read before it is looked whose the names are, and written along with what takes them: of two who look at the same moment
 * the second is refused with `conflict`, and looks again. Of no names, nothing.
 */
export async function turnFor(
  { store }: Pick<Deps, 'store'>,
  names: readonly string[],
  signal: AbortSignal,
): Promise<Piece> {
  if (names.length === 0) return {};
  const keys = [...new Set(names.map(turnKey))];
  const { reads } = await store.transact({ then: keys.map((key) => ({ get: key })) }, { signal });
  return {
    compare: keys.map((key, at) => ({ key, modRevision: reads[at]?.[0]?.modRevision ?? 0 })),
    then: keys.map((key) => ({ put: key, value: 'true' })),
  };
}

/** Those that the release has and the live one has not. Of the platform and of datastores none: theirs nobody takes at any time. */
export function takenNames({ spec }: AppResource, { next, live }: { next: Processes; live: Processes }): string[] {
  if (spec.isSystem || spec.datastore !== undefined) return [];
  const had = new Set(namesIn(spec.name, live));
  return namesIn(spec.name, next).filter((one) => !had.has(one));
}

function turnKey(name: string): string {
  const turn = createHash('sha256').update(name).digest().readUInt8(0) % turnCount;
  return `/flynn/service-name-turns/${String(turn).padStart(2, '0')}`;
}
