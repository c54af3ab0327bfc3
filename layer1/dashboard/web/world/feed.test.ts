import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Identity } from '@flynn/controller/access/model';
import type { Api } from '../api/client.ts';
import { WorldFeed } from './feed.ts';
import { put, someApp, whole } from './world-fixture.ts';
import type { StreamEvent } from '../api/streams.ts';

const ann: Identity = { kind: 'user', name: 'ann', role: 'none', teams: [], apps: [{ name: 'shop', role: 'viewer' }] };

const told: readonly StreamEvent[] = [put('app', someApp()), { ...whole, id: '7' }];

/** A feed whose stream tells that each time it is asked for, and what it was asked to go on after. */
function setUp() {
  const asked: (string | undefined)[] = [];
  const state = { identity: ann };
  const feed = new WorldFeed(ann);
  /** Follows until so much was told; then nobody looks any more. */
  async function look(events: readonly StreamEvent[]): Promise<void> {
    const ended = new AbortController();
    const bytes = events.map(({ id, event, data }) =>
      new TextEncoder().encode(
        `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`,
      ),
    );
    const api: Api = {
      call: async () => state.identity as never,
      async stream(_url, { lastEventId }) {
        asked.push(lastEventId);
        const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
          const next = bytes.shift();
          if (next !== undefined) return controller.enqueue(next);
          ended.abort();
          controller.close();
        };
        // None is asked for before the one before it was taken.
        return new ReadableStream({ pull }, { highWaterMark: 0 });
      },
      hasSession: async () => true,
      logIn: async () => {},
      logOut: async () => {},
    };
    await feed.run(api, ended.signal);
  }
  return { feed, state, asked, look };
}

const names = (feed: WorldFeed) => feed.world.all('app').map(({ name }) => name);

describe('following the world', () => {
  it('goes on where it was left, for who comes back', async () => {
    const { feed, asked, look } = setUp();
    await look(told);
    await look([{ ...put('app', someApp({ id: 'a2', name: 'blog' })), id: '9' }]);
    await look([]);
    assert.deepEqual(asked, [undefined, '7', '9']);
    assert.deepEqual(names(feed), ['shop', 'blog']);
  });

  it('begins anew where it was left before everything was told', async () => {
    const { asked, look } = setUp();
    await look(told.slice(0, 1));
    await look(told);
    assert.deepEqual(asked, [undefined, undefined]);
  });

  it('begins anew for who may see more by now, or less', async () => {
    const { feed, state, asked, look } = setUp();
    await look(told);
    state.identity = { ...ann, apps: [{ name: 'blog', role: 'viewer' }] };
    await look([put('app', someApp({ id: 'a2', name: 'blog' })), { ...whole, id: '9' }]);
    assert.deepEqual(asked, [undefined, undefined]);
    assert.deepEqual(names(feed), ['blog']);
    await look([]);
    assert.deepEqual(asked.at(-1), '9');
  });
});
