/** A store's own copies, for the other stores. */
import { type Handler, handle } from '@flynn/kit/http-server';
import { replicaRoutes } from './replica-api.ts';
import type { Replica } from './replica.ts';
import { blobAnswer } from './server.ts';

/** `onRead` is told of every copy that is asked for. */
export function replicaHandlers(own: Replica, onRead: (digest: string) => void = () => undefined): Handler[] {
  return [
    handle(replicaRoutes.copy, ({ params: { digest }, query: { usedAt }, body, signal }) =>
      own.copy({ digest, usedAt }, body, { signal }),
    ),
    handle(replicaRoutes.open, async ({ params: { digest }, query: { from } }) => {
      const opened = await own.open(digest, { from });
      onRead(digest);
      return blobAnswer(opened, from);
    }),
    handle(replicaRoutes.find, async ({ params: { digest } }) => ({ held: await own.find(digest) })),
    handle(replicaRoutes.use, async ({ params: { digest }, body: { at } }) => ({ blob: await own.use(digest, at) })),
    handle(replicaRoutes.list, ({ query }) => own.list(query)),
    handle(replicaRoutes.remove, async ({ body }) => ({ isRemoved: await own.remove(body) })),
    handle(replicaRoutes.removals, ({ query }) => own.removals(query)),
    handle(replicaRoutes.point, ({ body }) => own.point(body)),
    handle(replicaRoutes.pointer, async ({ params: { name } }) => ({ pointer: await own.pointer(name) })),
    handle(replicaRoutes.pointers, ({ query }) => own.pointers(query)),
  ];
}
