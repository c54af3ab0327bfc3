/** What the receiver needs of the controller, and nothing else of it. */
import { actForHeader } from '@flynn/controller/access/act-for';
import { apps, deployments } from '@flynn/controller/api';
import { keys } from '@flynn/controller/keys/api';
import { operations } from '@flynn/controller/operations/api';
import { hasEnded, needsPeople } from '@flynn/controller/deployments/phases';
import { operationSchema } from '@flynn/controller/model';
import type { App, Key, Operation } from '@flynn/controller/model';
import { hasCode, ifFound } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { retry } from '@flynn/kit/retry';
import { systemClock } from '@flynn/kit/clock';
import { z } from 'zod';

/** Longer than the controller takes to come back after its host was lost. */
const outageMs = 120_000;

export type Push = {
  pushId: string;
  sourceDigest: string;
  commit: string;
  branch: string;
  /** What of the commit the source is, and the Dockerfile in it, where the app says. */
  folder?: string;
  dockerfile?: string;
  /** How long the build may wait for a runner. */
  expiresInMs?: number;
};

export type Platform = {
  /** The same, as the act of whom the SSH key belongs to: they see what they may see and do what they may do. */
  actingFor(fingerprint: string): Platform;
  /** Undefined if nobody registered the key. */
  findKey(fingerprint: string, options: { signal?: AbortSignal }): Promise<Key | undefined>;
  findApp(name: string, options: { signal?: AbortSignal }): Promise<App | undefined>;
  /** Whether a deployment of the app is under way that goes on by itself: what is pushed meanwhile is live after that. */
  isDeploying(appId: string, options: { signal: AbortSignal }): Promise<boolean>;
  /** Of all apps. */
  appIds(options: { signal?: AbortSignal }): Promise<ReadonlySet<string>>;
  /** The chain build, release, deploy. Idempotent by pushId, so it is tried again while the controller is away. */
  push(appId: string, push: Push, options: { signal: AbortSignal }): Promise<Operation[]>;
  /** Every line from the first, each once, as they are written; ends with how the operation ended. */
  follow(operationId: string, options: { signal: AbortSignal }): AsyncGenerator<string, Operation>;
  cancel(operationId: string): Promise<void>;
};

const lineSchema = z.object({ text: z.string() });

export function createPlatform(http: Pick<HttpClient, 'call' | 'events'>, actFor?: string): Platform {
  const headers: Record<string, string> = actFor === undefined ? {} : { [actForHeader]: actFor };
  return {
    actingFor: (fingerprint) => createPlatform(http, fingerprint),
    findKey: (fingerprint, options) => ifFound(http.call(keys.get, { params: { fingerprint } }, options)),
    findApp: (app, options) => ifFound(http.call(apps.get, { params: { app } }, { ...options, headers })),
    async isDeploying(app, options) {
      // Of one app one at a time, and none is made beside it.
      const [newest] = await http.call(
        deployments.list,
        { params: { app }, query: { limit: 1 } },
        { ...options, headers },
      );
      return newest !== undefined && !hasEnded(newest) && !needsPeople(newest);
    },
    async appIds(options) {
      const all = await http.call(apps.list, {}, options);
      return new Set(all.map(({ id }) => id));
    },
    push: (app, body, { signal }) =>
      retry((signal) => http.call(operations.push, { params: { app }, body }, { signal, headers }), {
        what: 'the controller to take the push',
        deadlineMs: outageMs,
        signal,
      }),
    async *follow(operation, { signal }) {
      let lastEventId: string | undefined;
      let brokenSinceMs: number | undefined;
      for (;;) {
        signal.throwIfAborted();
        try {
          const options = { signal, headers, ...(lastEventId === undefined ? {} : { lastEventId }) };
          for await (const event of http.events(operations.log, { params: { operation } }, options)) {
            brokenSinceMs = undefined;
            lastEventId = event.id ?? lastEventId;
            if (event.event === 'line') yield lineSchema.parse(event.data).text;
            else if (event.event === 'end') return operationSchema.parse(event.data);
          }
        } catch (error) {
          if (!hasCode(error, 'unavailable', 'timeout')) throw error;
          brokenSinceMs ??= performance.now();
          if (performance.now() - brokenSinceMs > outageMs) throw error;
        }
        await systemClock.sleep(500, { signal });
      }
    },
    async cancel(operation) {
      await retry((signal) => http.call(operations.cancel, { params: { operation } }, { signal, headers }), {
        what: `cancelling operation ${operation}`,
        deadlineMs: 30_000,
      });
    },
  };
}
