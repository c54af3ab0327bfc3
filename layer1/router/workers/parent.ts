/** A router of several processes: this one starts them and speaks for them, and carries no traffic itself. */
import type { ChildProcess } from 'node:child_process';
import type { Logger } from '@flynn/kit/log';
import { statusSchema } from '../api.ts';
import type { Told } from '../server.ts';
import { sumOfStatus } from './status.ts';
import { Workers } from './workers.ts';

/** For the first routes, and for the backends they name. */
const startDeadlineMs = 60_000;
/** For a worker to stop after its last connection was cut. */
const marginMs = 1_500;

export type RouterParent = Told & {
  stop(options: { drainMs: number }): Promise<void>;
};

export async function startParent(options: {
  count: number;
  spawn: (index: number) => ChildProcess;
  log: Logger;
}): Promise<RouterParent> {
  const workers = await Workers.start({ ...options, startDeadlineMs });
  return {
    status: async () => sumOfStatus((await workers.ask('status')).map((status) => statusSchema.parse(status))),
    async isSo(word, { waitMs }) {
      const asked = workers.pids.length;
      const answers = await workers.ask('word', { ...word, waitMs }, { timeoutMs: waitMs + 1_000 });
      // One that died meanwhile takes no connections before it knows as much as there is to know.
      return asked > 0 && answers.length === asked && answers.every((isSo) => isSo === true);
    },
    stop: ({ drainMs }) => workers.stop({ deadlineMs: drainMs + marginMs }),
  };
}
