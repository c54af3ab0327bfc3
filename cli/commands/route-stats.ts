import type { Command } from 'commander';
import { routing } from '@flynn/controller/routes/api';
import type { Route } from '@flynn/controller/model';
import type { RouteStats } from '@flynn/controller/routes/stats';
import { pause } from '@flynn/kit/clock';
import { parseIntervalMs } from '../arguments.ts';
import type { Context } from '../context.ts';
import { formatCount, formatTable } from '../output.ts';
import { statsColumns, statsRow, statsSince } from '../routes/figures.ts';
import { urlsOf } from './app.ts';
import { addCommand, type Parent } from './command.ts';

type Read = (limits?: { signal?: AbortSignal }) => Promise<Answer>;
type Answer = { routes: RouteStats[]; routers: number; silent: { address: string; why: string }[] };

export function addRouteStatsCommand(parent: Parent, route: Command): void {
  addCommand<{ watch?: boolean; interval: string }>(parent, {
    under: route,
    name: 'stats',
    onlyTells: true,
    summary: 'what all routers counted since their start; with -w what happens now',
    arguments: [['[id]', 'of one route, else all of the app']],
    options: {
      watch: ['-w, --watch', 'what came in each interval, until interrupted'],
      interval: ['--interval <time>', 'with -w: how often', '2s'],
    },
    examples: ['flynn route stats', 'flynn route stats -w shop.example.com'],
    async run(context, options, [id]) {
      const intervalMs = Math.max(100, parseIntervalMs(options.interval));
      const client = await context.client();
      const params = { app: await context.appName() };
      const query = id === undefined ? {} : { route: id };
      const read: Read = (limits = {}) => client.call(routing.stats, { params, query }, limits);
      const routes = await client.call(routing.list, { params });
      if (options.watch !== true) return show(context, routes, await read(), undefined);
      await watch(context, { routes, read, intervalMs });
    },
  });
}

async function watch(
  context: Context,
  { routes, read, intervalMs }: { routes: readonly Route[]; read: Read; intervalMs: number },
): Promise<void> {
  const ending = new AbortController();
  const { signal } = ending;
  const offSignal = context.io.onSignal('SIGINT', () => ending.abort());
  try {
    let [before, atMs] = [await read({ signal }), performance.now()];
    while (!signal.aborted) {
      await pause(intervalMs, signal);
      if (signal.aborted) return;
      const now = await read({ signal });
      const seconds = (performance.now() - atMs) / 1_000;
      atMs = performance.now();
      const since = new Map(before.routes.map((one) => [one.id, one]));
      const changes = now.routes.map((one) => statsSince(since.get(one.id), one));
      await show(context, routes, { ...now, routes: changes }, seconds);
      before = now;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    offSignal();
  }
}

/** With `seconds` it is what came in that time, else since the routers' start. */
async function show(
  context: Context,
  routes: readonly Route[],
  { routes: stats, routers, silent }: Answer,
  seconds: number | undefined,
): Promise<void> {
  const cluster = await context.cluster();
  const names = new Map(routes.map((route) => [route.id, urlsOf([route], cluster)[0] ?? route.id]));
  const took = seconds === undefined ? {} : { seconds };
  const value = { ...took, routes: stats, routers, silent };
  const text = () => {
    const rows = stats.map((one) => [names.get(one.id) ?? one.id, ...statsRow(one, seconds)]);
    if (rows.length === 0) return `no request yet (${formatCount(routers, 'router')})`;
    return formatTable(['ROUTE', ...statsColumns(seconds)], rows);
  };
  // Of one reading after the other each is a line: whoever reads them tells by it where one ends.
  if (context.options.json && seconds !== undefined) context.print(JSON.stringify(value));
  else context.show(value, text);
  if (silent.length === 0) return;
  const who = silent.map(({ address, why }) => `\n  ${address}: ${why}`).join('');
  context.tell(`flynn: ${formatCount(silent.length, 'router')} could not be asked and is missing here${who}`);
}
