/** What the controller says there is: apps that were deleted lose their logs, drains begin and end. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import type { Logger } from '@flynn/kit/log';
import type { ServerEvent } from '@flynn/kit/routes';
import { forever } from '@flynn/kit/tasks';
import { z } from 'zod';
import { drainSchema, feedRoute } from './api.ts';
import type { Drain } from './api.ts';
import type { Drains } from './drains.ts';
import type { History } from './history.ts';

const appSchema = z.object({ id: z.string(), name: z.string() });
/** The cluster's own hosts and subnets: known before the first drain. */
const networksSchema = z.object({ inside: z.array(z.string()) });
const removalSchema = z.object({ id: z.string() });

/** A new list now and then: it finds what was written of an app after it was deleted. */
const listEveryMs = 10 * 60_000;

type Parts = { history: History; drains: Drains; appNames: Map<string, string>; log: Logger };

/**
 * One connection: all there is, `current`, then changes. Only logs that were there before the list was asked for can be of
 * apps that are not in it because they were deleted, rather than not yet made.
 */
export async function applyFeed(
  events: AsyncIterable<ServerEvent>,
  { history, drains, appNames, log }: Parts,
): Promise<void> {
  const before = history.apps;
  const apps = new Set<string>();
  const drainIds = new Set<string>();
  for await (const { event, data } of events) {
    if (event === 'networks') drains.outside.setInside(networksSchema.parse(data).inside);
    else if (event === 'app') {
      const { id, name } = appSchema.parse(data);
      apps.add(id);
      appNames.set(id, name);
    } else if (event === 'drain') {
      const drain = drainSchema.safeParse(data);
      // A drain this version cannot read must not cost all the others.
      if (drain.success) {
        drainIds.add(drain.data.id);
        await addDrain(drain.data, { drains, log });
      } else log.error(`the controller told of a drain that cannot be read: ${z.prettifyError(drain.error)}`);
    } else if (event === 'current') {
      await drains.keepOnly(drainIds);
      for (const app of before) if (!apps.has(app)) await removeApp(app, { history, appNames, log });
    } else if (event === 'app-removed') await removeApp(removalSchema.parse(data).id, { history, appNames, log });
    else if (event === 'drain-removed') await drains.remove(removalSchema.parse(data).id);
  }
}

async function addDrain(drain: Drain, { drains, log }: Pick<Parts, 'drains' | 'log'>): Promise<void> {
  try {
    await drains.add(drain);
  } catch (error) {
    log.error(
      { drain: drain.id },
      `a drain could not be begun, and is tried again with the next list: ${messageOf(error)}`,
    );
  }
}

async function removeApp(app: string, { history, appNames, log }: Omit<Parts, 'drains'>): Promise<void> {
  await history.remove(app);
  appNames.delete(app);
  log.info({ app }, "a deleted app's log was removed");
}

/** Runs until the signal aborts. While the controller is away what was last known stays in force. */
export async function followController(
  options: Parts & { controller: Pick<HttpClient, 'events'>; signal: AbortSignal },
): Promise<void> {
  const { controller, log, signal } = options;
  const step = async (running: AbortSignal) => {
    const over = AbortSignal.timeout(listEveryMs);
    const events = controller.events(feedRoute, {}, { signal: AbortSignal.any([running, over]) });
    await applyFeed(events, options).catch((error: unknown) => {
      throw new FlynnError('unavailable', `following the controller broke off: ${messageOf(error)}`, { cause: error });
    });
    if (!running.aborted && !over.aborted) throw new FlynnError('unavailable', 'the controller ended its feed');
  };
  await forever('following the controller', step, { signal, log, maxMs: 5_000 });
}
