/** Images from hosts that have them: a cluster needs no registry. */
import type { Readable } from 'node:stream';
import { hasCode, messageOf } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import type { Logger } from '@flynn/kit/log';
import { routes } from '../api.ts';

const askMs = 10_000;

/** The images as one archive, from one host after the other; nothing when no peer has them all or can be asked. */
export type FetchImages = (names: readonly string[], options: { signal?: AbortSignal }) => AsyncIterable<Readable>;

/** `peers`: base URLs of other hosts' agents, asked for each time. */
export function fetchFromPeers(options: { peers: () => readonly string[]; key: string; log: Logger }): FetchImages {
  return async function* fetchImages(names, { signal }) {
    const limits = signal === undefined ? {} : { signal };
    for (const baseUrl of shuffled(options.peers())) {
      await using client = new HttpClient({ baseUrl, key: options.key, name: `the host at ${baseUrl}` });
      let archive: Readable;
      try {
        archive = await client.stream(routes.image, { query: { name: [...names] } }, { ...limits, timeoutMs: askMs });
      } catch (error) {
        if (signal?.aborted === true) throw error;
        if (hasCode(error, 'not_found')) continue;
        options.log.debug({ err: error, images: names, from: baseUrl }, `could not ask a host: ${messageOf(error)}`);
        continue;
      }
      options.log.info({ images: names, from: baseUrl }, `fetching ${names.join(', ')} from another host`);
      yield archive;
    }
  };
}

function shuffled(urls: readonly string[]): string[] {
  const order = [...urls];
  for (let at = order.length - 1; at > 0; at -= 1) {
    const other = Math.floor(Math.random() * (at + 1));
    [order[at], order[other]] = [order[other] ?? '', order[at] ?? ''];
  }
  return order;
}
