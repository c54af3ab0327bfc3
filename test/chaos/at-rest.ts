/** What an app is like once nothing of it is under way any more. */
import { waitFor } from '@flynn/kit/retry';
import type { Checkout } from '../checkout.ts';

const restMs = 150_000;

export type AtRest = Readonly<{ body: string; env: string; counts: unknown; jobs: string[]; unfinished: string[] }>;

export function untilAtRest(app: Checkout): Promise<AtRest> {
  return waitFor(
    async () => {
      const unfinished = await unfinishedOf(app);
      if (unfinished.length > 0) throw new Error(unfinished.join(', '));
      const jobs = (await app.cluster.jobs(app.name)).filter(({ state }) => state !== 'done' && state !== 'crashed');
      if (jobs.some(({ state }) => state !== 'running')) throw new Error(JSON.stringify(jobs));
      return {
        body: (await app.get()).body,
        env: (await app.flynn(['env', 'get', 'TEXT'])).stdout.trim(),
        counts: JSON.parse((await app.flynn(['scale', '--json'])).stdout) as unknown,
        jobs: jobs.map(({ type, state }) => `${type} ${state}`).sort(),
        unfinished,
      };
    },
    { what: `${app.name} to be at rest`, deadlineMs: restMs, intervalMs: 1_000 },
  );
}

async function unfinishedOf(app: Checkout): Promise<string[]> {
  const list = async (...command: string[]): Promise<{ id: string; state: string }[]> =>
    JSON.parse((await app.flynn([...command, '--json'])).stdout) as { id: string; state: string }[];
  const ended = new Set(['complete', 'failed', 'cancelled']);
  return [...(await list('op', 'list')), ...(await list('deployment'))]
    .filter(({ state }) => !ended.has(state))
    .map(({ id, state }) => `${id} ${state}`);
}
