/** A router of several processes speaks with one voice: this is what the parent asks the workers, and makes of their answers. */
import type { ChildProcess } from 'node:child_process';
import { routeStatsSchema, sumRouteStats } from '@flynn/controller/routes/stats';
import type { RouteStats } from '@flynn/controller/routes/stats';
import { wordSchema } from '@flynn/discovery/routers';
import type { Logger } from '@flynn/kit/log';
import { z } from 'zod';
import { statusSchema } from '../api.ts';
import type { Voice } from '../server.ts';
import { sumOfStatus } from './status.ts';
import type { Answers } from './worker.ts';
import { Workers } from './workers.ts';

/** For the first routes, and for the backends they name. */
const startDeadlineMs = 60_000;
/** For a worker to stop after its last connection was cut. */
const marginMs = 1_500;

const askedWord = wordSchema.extend({ waitMs: z.int() });
const askedStats = z.object({ app: z.string().optional(), route: z.string().optional() });

/** A worker's part. `signal` ends what waits. */
export function answersOf(voice: Voice, signal: AbortSignal): Answers {
  return {
    status: () => voice.status(),
    async stats(input) {
      const { app, route } = askedStats.parse(input);
      if (route === undefined) return voice.allStats(app);
      const stats = await voice.routeStats(route);
      return stats === undefined ? [] : [stats];
    },
    word(input) {
      const { waitMs, ...word } = askedWord.parse(input);
      return voice.isSo(word, { waitMs, signal });
    },
  };
}

/** The parent's part; it carries no traffic itself. */
export async function startParent(options: {
  count: number;
  spawn: (index: number) => ChildProcess;
  log: Logger;
}): Promise<Voice & { stop(options: { drainMs: number }): Promise<void> }> {
  const workers = await Workers.start({ ...options, startDeadlineMs });
  const stats = async (asked: z.input<typeof askedStats>) =>
    sumsOf(
      z
        .array(z.array(routeStatsSchema))
        .parse(await workers.ask('stats', asked))
        .flat(),
    );
  return {
    status: async () => sumOfStatus((await workers.ask('status')).map((status) => statusSchema.parse(status))),
    routeStats: async (route) => (await stats({ route }))[0],
    allStats: (app) => stats({ app }),
    async isSo(word, { waitMs }) {
      const asked = workers.pids.length;
      const answers = await workers.ask('word', { ...word, waitMs }, { timeoutMs: waitMs + 1_000 });
      // One that died meanwhile takes no connections before it knows as much as there is to know.
      return asked > 0 && answers.length === asked && answers.every((isSo) => isSo === true);
    },
    stop: ({ drainMs }) => workers.stop({ deadlineMs: drainMs + marginMs }),
  };
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
