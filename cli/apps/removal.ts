/** Deletes an app, however long its jobs take to stop. */
import { apps } from '@flynn/controller/api';
import type { App } from '@flynn/controller/model';
import { FlynnError, asFlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { withDeadline } from '@flynn/kit/retry';
import type { ResponseOf } from '@flynn/kit/routes';
import { z } from 'zod';
import { describeVolume } from '../commands/volume.ts';
import { formatCount } from '../output.ts';

/** For an app that was made a moment ago: it has no job. */
const halfMs = 60_000;

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

/** Of one that was made a moment ago and is not whole: left there it would keep the name from the next try. With what to say. */
export async function withoutHalf(client: HttpClient, app: App, error: unknown, again: string): Promise<FlynnError> {
  const { code, message, detail } = asFlynnError(error);
  let now = `${app.name}, which was not whole yet, is deleted again: ${again}`;
  try {
    await removeApp(client, app, { volumes: false, deadlineMs: halfMs });
  } catch (failure) {
    now = `${app.name} is there and not whole, and could not be deleted: ${messageOf(failure)}\n  "flynn delete -a ${app.name}" deletes it; then ${again}`;
  }
  return new FlynnError(code, `${message}\n  ${now}`, { cause: error, detail });
}
