/** Deletes an app, however long its jobs take to stop. */
import { apps } from '@flynn/controller/api';
import { hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { withDeadline } from '@flynn/kit/retry';
import type { ResponseOf } from '@flynn/kit/routes';
import { z } from 'zod';
import { describeVolume } from '../commands/volume.ts';
import { formatCount } from '../output.ts';

/** What went with the app, as far as it is known. */
export type Removed = Partial<ResponseOf<typeof apps.remove>>;

const foundSchema = z.object({
  routes: z.int(),
  releases: z.int(),
  jobs: z.int(),
  artifacts: z.int(),
  resources: z.int(),
});

/**
 * The controller answers within half a minute, what it found with it, and goes on by itself: it is asked again until the app
 * is gone. Throws `timeout` when it is not by the deadline.
 */
export async function removeApp(
  client: HttpClient,
  { id }: { id: string },
  { volumes, deadlineMs }: { volumes: boolean; deadlineMs: number },
): Promise<Removed> {
  const limited = withDeadline(deadlineMs);
  const input = { params: { app: id }, query: volumes ? { volumes } : {} };
  let found: Removed | undefined;
  for (;;) {
    try {
      const removed = await client.call(apps.remove, input, { timeoutMs: 60_000 });
      return { ...removed, jobs: Math.max(removed.jobs, found?.jobs ?? 0) };
    } catch (error) {
      if (hasCode(error, 'not_found')) return found ?? {};
      if (!hasCode(error, 'timeout') || limited.aborted) throw error;
      // Of the first answer: later ones do not count jobs that have stopped meanwhile.
      found ??= foundSchema.safeParse(error.detail).data;
    }
  }
}

export function textOfRemoved(name: string, removed: Removed): string {
  const { routes, releases, jobs, artifacts, resources, volumes, left } = removed;
  const always: [number | undefined, string][] = [
    [routes, 'route'],
    [releases, 'release'],
    [jobs, 'job'],
    [artifacts, 'artifact'],
  ];
  const ifAny: [number | undefined, string][] = [
    [resources || undefined, 'resource'],
    [volumes || undefined, 'volume'],
  ];
  const counts = [...always, ...ifAny].flatMap(([count, what]) =>
    count === undefined ? [] : formatCount(count, what),
  );
  const list = counts.length === 0 ? '' : `: ${counts.join(', ')}`;
  const stays = (left?.volumes ?? []).map(
    (one) => `left: ${describeVolume(one)}; "flynn volume remove ${one.id}" removes it\n`,
  );
  return `Deleted ${name}${list}\n${stays.join('')}`;
}
