/** A router of several processes speaks with one voice: this is what all are asked, and what is made of their answers. */
import { appStatsSchema, sumByApp } from '@flynn/controller/routes/app-stats';
import { routeStatsSchema, sumRouteStats } from '@flynn/controller/routes/stats';
import type { RouteStats } from '@flynn/controller/routes/stats';
import { wordSchema } from '@flynn/discovery/routers';
import { FlynnError } from '@flynn/kit/errors';
import { TaskGroup } from '@flynn/kit/tasks';
import { z } from 'zod';
import { statusSchema } from '../api.ts';
import type { Voice } from '../server.ts';
import type { WorkerRange } from './count.ts';
import { Crew } from './crew.ts';
import type { CrewOptions } from './crew.ts';
import { Past, lastSchema } from './past.ts';
import { keepSized } from './sizing.ts';
import { sumOfStatus } from './status.ts';
import type { Answers } from './worker.ts';

/** For the first routes, and for the backends they name. */
const startDeadlineMs = 60_000;

const askedWord = wordSchema.extend({ waitMs: z.int() });
const askedStats = z.object({
  app: z.string().optional(),
  route: z.string().optional(),
  /** These too, though nothing be counted of them. */
  also: z.array(z.string()).optional(),
});
const askedApps = z.object({ also: z.array(z.string()) });
const toldApps = z.object({ apps: z.array(appStatsSchema), unknown: z.array(z.string()) });
const askedCount = z.object({ count: z.int().min(1) });

/**
 * A worker's part. `signal` ends what waits; `onCount` hears how many there are now; `leave` is to take no more connections, and
 * says whether it does.
 */
export function answersOf(
  voice: Voice,
  options: { signal: AbortSignal; onCount: (count: number) => void; leave: () => boolean },
): Answers {
  const { signal } = options;
  return {
    status: () => voice.status(),
    async stats(input) {
      const { app, route, also = [] } = askedStats.parse(input);
      const stats = route === undefined ? await voice.allStats(app) : [];
      const known = new Set(stats.map(({ id }) => id));
      for (const id of route === undefined ? also : [route]) {
        const one = known.has(id) ? undefined : await voice.routeStats(id);
        if (one !== undefined && (app === undefined || one.appId === app)) stats.push(one);
      }
      return stats;
    },
    async appCounts(input) {
      return voice.appCounts(askedApps.parse(input).also);
    },
    async count(input) {
      options.onCount(askedCount.parse(input).count);
      return null;
    },
    leave: async () => options.leave(),
    word(input) {
      const { waitMs, ...word } = askedWord.parse(input);
      return voice.isSo(word, { waitMs, signal });
    },
  };
}

/** What carries the traffic, with one voice. It begins with `count` processes: one is this one. */
export async function startCarrier(
  options: Omit<CrewOptions, 'startDeadlineMs' | 'onLast'> & {
    range: WorkerRange;
    onCount?: (count: number) => Promise<void>;
  },
): Promise<Voice & { stop(options: { drainMs: number }): Promise<void> }> {
  const { range } = options;
  const past = new Past();
  const onLast = (counts: unknown) => past.add(lastSchema.parse(counts));
  const crew = await Crew.start({ ...options, startDeadlineMs, onLast });
  const tasks = new TaskGroup();
  if (range.most > range.least) tasks.run('sizing', (signal) => keepSized(crew, { ...options, signal }));
  /** Throws `unavailable` if one does not tell: a sum without it would be less than what was told before. */
  const askAll = async <Part>(question: string, asked: unknown, schema: z.ZodType<Part>): Promise<Part[]> => {
    const { parts, missing } = await undisturbed(past, async () => {
      const { speakers } = crew;
      const answers = await crew.ask(question, asked);
      return { parts: z.array(schema).parse(answers), missing: speakers - answers.length };
    });
    if (missing > 0) throw new FlynnError('unavailable', `${missing} of its processes did not tell: ask again`);
    return parts;
  };
  const ask = async (asked: z.input<typeof askedStats>) =>
    sumsOf((await askAll('stats', asked, z.array(routeStatsSchema))).flat());
  /** Who has only just started, or does not answer, says nothing of which routes there are. */
  const allKnowRoutes = async () => {
    const asked = crew.speakers;
    const parts = (await crew.ask('status')).map((status) => statusSchema.parse(status));
    return parts.length === asked && parts.every(({ hasRoutes }) => hasRoutes);
  };
  return {
    async status() {
      if (crew.alone !== undefined) return { ...(await crew.alone.status()), workers: 1 };
      const parts = await undisturbed(past, async () =>
        (await crew.ask('status')).map((status) => statusSchema.parse(status)),
      );
      return { ...past.status(sumOfStatus(parts)), workers: crew.takingPids.length };
    },
    routeStats: async (route) => crew.alone?.routeStats(route) ?? past.stats(await ask({ route }))[0],
    async allStats(app) {
      if (crew.alone !== undefined) return crew.alone.allStats(app);
      const also = past.routes;
      const stats = await ask({ ...(app === undefined ? {} : { app }), also });
      const listed = new Set(stats.map(({ id }) => id));
      const unlisted = also.filter((id) => !listed.has(id));
      if (app === undefined && unlisted.length > 0 && (await allKnowRoutes())) past.forget(unlisted);
      return past.stats(stats).filter(({ requests, active }) => requests + active > 0);
    },
    async appCounts(also) {
      if (crew.alone !== undefined) return crew.alone.appCounts(also);
      const parts = await askAll('appCounts', { also: [...past.routes, ...also] }, toldApps);
      const [first, ...others] = parts.map(({ unknown }) => new Set(unknown));
      // A route is there as long as one of them has it.
      const gone = new Set([...(first ?? [])].filter((id) => others.every((unknown) => unknown.has(id))));
      return {
        apps: sumByApp([...parts.flatMap(({ apps }) => apps), ...past.apps(gone)]),
        unknown: also.filter((id) => gone.has(id)),
      };
    },
    async isSo(word, { waitMs }) {
      const asked = crew.speakers;
      const answers = await crew.ask('word', { ...word, waitMs }, { timeoutMs: waitMs + 1_000 });
      // One that died meanwhile takes no connections before it knows as much as there is to know.
      return asked > 0 && answers.length === asked && answers.every((isSo) => isSo === true);
    },
    async stop({ drainMs }) {
      const sized = tasks.stop();
      await crew.stop({ drainMs });
      await sized;
    },
  };
}

/** One that leaves while it is asked is either asked or past, and never both. */
async function undisturbed<T>(past: Past, ask: () => Promise<T>): Promise<T> {
  for (;;) {
    const { added } = past;
    const answer = await ask();
    if (past.added === added) return answer;
  }
}

function sumsOf(all: readonly RouteStats[]): RouteStats[] {
  const byRoute = new Map<string, [RouteStats, ...RouteStats[]]>();
  for (const stats of all) {
    const known = byRoute.get(stats.id);
    if (known === undefined) byRoute.set(stats.id, [stats]);
    else known.push(stats);
  }
  return [...byRoute.values()].map(sumRouteStats);
}
