/** A change of a route is told as done once every router has it. */
import { routing } from '@flynn/controller/routes/api';
import { messageOf } from '@flynn/kit/errors';
import type { Context } from '../context.ts';
import { formatCount } from '../output.ts';

const waitMs = 5_000;

/** Without a revision it was removed. What is not everywhere by then is told, and comes by itself. */
export async function awaitRouters(
  context: Context,
  routes: readonly { id: string; revision?: number | undefined }[],
): Promise<void> {
  const client = await context.client();
  const params = { app: await context.appName() };
  const body = {
    routes: routes.map(({ id, revision }) => (revision === undefined ? { id } : { id, revision })),
    waitMs,
  };
  try {
    const { missing } = await context.progress('waiting for the routers', () =>
      client.call(routing.reach, { params, body }, { timeoutMs: 3 * waitMs }),
    );
    if (missing.length === 0) return;
    const late = `${formatCount(missing.length, 'router')} of the cluster`;
    warn(context, `${late} did not say within ${waitMs / 1_000} s that it is in force there: ${missing.join(', ')}`);
  } catch (error) {
    warn(context, `whether it is in force everywhere is not known: ${messageOf(error)}`);
  }
}

function warn(context: Context, what: string): void {
  context.tell(`flynn: ${what}\n  it is kept, and comes into force there as soon as the controller is reached`);
}
