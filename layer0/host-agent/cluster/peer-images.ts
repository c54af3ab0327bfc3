/** Images from hosts that have them: a cluster needs no registry. */
import type { Readable } from 'node:stream';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { untilSilent } from '@flynn/kit/silence';
import { type AgentAccess, type AgentPlace, agentClient } from '../agent-client.ts';
import { routes } from '../api.ts';

/** An engine writes an image out whole before its first byte: on a slow disk that is more than a minute for a large one. */
const askMs = 180_000;

/** The images as one archive, from one host after the other; nothing when no peer has them all or can be asked. */
export type FetchImages = (names: readonly string[], options: { signal?: AbortSignal }) => AsyncIterable<Readable>;

/** `peers`: other hosts' agents, asked for each time. */
export function fetchFromPeers(options: {
  peers: () => readonly AgentPlace[];
  access: AgentAccess;
  /** A peer whose machine died sends nothing and says nothing: after so long its archive fails. Default 60 s. */
  silenceMs?: number;
  log: Logger;
}): FetchImages {
  return async function* fetchImages(names, { signal }) {
    const limits = signal === undefined ? {} : { signal };
    for (const peer of shuffled(options.peers())) {
      const from = peer.address;
      await using client = agentClient(peer, options.access);
      let archive: Readable;
      try {
        archive = await client.stream(routes.image, { query: { name: [...names] } }, { ...limits, timeoutMs: askMs });
      } catch (error) {
        if (signal?.aborted === true) throw error;
        if (hasCode(error, 'not_found')) continue;
        const next = `another is asked, then a registry; if this goes on, type "flynn-host doctor" there`;
        const what = `could not have ${names.join(', ')} from ${peer.id}: ${messageOf(error)}`;
        options.log.warn({ err: error, images: names, from }, `${what}; ${next}`);
        continue;
      }
      options.log.info({ images: names, from }, `fetching ${names.join(', ')} from another host`);
      const read = untilSilent(archive, { what: `the transfer from ${peer.id}`, silenceMs: options.silenceMs });
      read.once('error', (error) => {
        if (signal?.aborted === true) return;
        options.log.warn(
          { err: error, images: names, from },
          `could not have all of ${names.join(', ')}: ${messageOf(error)}`,
        );
      });
      yield read;
    }
  };
}

function shuffled<T>(all: readonly T[]): T[] {
  const order = [...all];
  for (let at = order.length - 1; at > 0; at -= 1) {
    const other = Math.floor(Math.random() * (at + 1));
    const [here, there] = [order[at], order[other]];
    if (here !== undefined && there !== undefined) [order[at], order[other]] = [there, here];
  }
  return order;
}
