/** Another store's copies, over HTTP. */
import { Readable } from 'node:stream';
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { Stall } from '@flynn/kit/stall';
import { replicaRoutes } from './replica-api.ts';
import type { Replica } from './replica.ts';

/** Of all of a copy, which may be as large as a database; it ends before that where it does not get on. */
const copyMs = 24 * 3_600_000;

/** Errors: the store's own, and `unavailable` or `timeout` when it does not answer. A closed client ends what is under way so. */
export function remoteReplica(http: HttpClient): Replica {
  const until = (signal: AbortSignal | undefined) => (signal === undefined ? {} : { signal });
  return {
    async copy({ digest, usedAt }, body, { signal } = {}) {
      using stall = new Stall({ what: `the copy of ${digest}`, signal });
      const sent = Readable.from(stall.watched(body), { objectMode: false });
      const input = { params: { digest }, query: { usedAt }, body: sent };
      return await http.call(replicaRoutes.copy, input, { signal: stall.signal, timeoutMs: copyMs });
    },
    async open(digest, { from = 0, signal } = {}) {
      const params = { digest };
      const { held } = await http.call(replicaRoutes.find, { params }, until(signal));
      if (held === undefined) throw new FlynnError('not_found', `the blob ${digest} is not in that blob store`);
      const body = await http.stream(replicaRoutes.open, { params, query: { from } }, until(signal));
      return { sizeBytes: held.sizeBytes, body };
    },
    find: async (digest, { signal } = {}) =>
      (await http.call(replicaRoutes.find, { params: { digest } }, until(signal))).held,
    use: async (digest, at, { signal } = {}) =>
      (await http.call(replicaRoutes.use, { params: { digest }, body: { at } }, until(signal))).blob,
    remove: async (removal, { signal } = {}) =>
      (await http.call(replicaRoutes.remove, { body: removal }, until(signal))).isRemoved,
    list: (query, { signal } = {}) => http.call(replicaRoutes.list, { query }, until(signal)),
    removals: (query, { signal } = {}) => http.call(replicaRoutes.removals, { query }, until(signal)),
    pointer: async (name, { signal } = {}) =>
      (await http.call(replicaRoutes.pointer, { params: { name } }, until(signal))).pointer,
    point: (pointer, { signal } = {}) => http.call(replicaRoutes.point, { body: pointer }, until(signal)),
    pointers: (query, { signal } = {}) => http.call(replicaRoutes.pointers, { query }, until(signal)),
  };
}
