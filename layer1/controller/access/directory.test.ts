/** What is open ends when its caller loses something, however late the news come and whatever is asked meanwhile. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { ResourceService } from '@flynn/resource/service';
import { createMemoryStore } from '@flynn/store/memory';
import type { ListOptions, Store } from '@flynn/store/store';
import { storeWith } from '@flynn/store/store-with';
import { appType, ownedBy } from '../resources.ts';
import { Directory } from './directory.ts';
import { RateLimit } from './rate-limit.ts';
import { grantId, grantType, tokenType, userType } from './resources.ts';
import { newTokenText } from './token-text.ts';

const app = { id: 'shop', isSystem: false };
const [userId, tokenId] = ['bobbobbobbob', 'abcdefghijkl'];
const waiting = { deadlineMs: 30_000, intervalMs: 5 };

/** Holds what comes through it until it is opened. */
class Lock {
  #open = Promise.withResolvers<void>();

  constructor() {
    this.#open.resolve();
  }

  get opened(): Promise<void> {
    return this.#open.promise;
  }

  shut(): void {
    this.#open = Promise.withResolvers();
  }

  open(): void {
    this.#open.resolve();
  }
}

let store: Store;
/** What was listed, and how. */
const lists: ListOptions[] = [];
/** Of what watches tell, and of what is read of a user. */
let [news, reads]: [Lock, Lock] = [new Lock(), new Lock()];
let resources: ResourceService;
let directory: Directory;
let signal: AbortSignal;
const { text, hash } = newTokenText(tokenId);

beforeEach(async () => {
  [news, reads] = [new Lock(), new Lock()];
  signal = AbortSignal.timeout(60_000);
  const raw = createMemoryStore();
  store = storeWith(raw, {
    async *watch(prefix, options) {
      for await (const batch of raw.watch(prefix, options)) {
        await news.opened;
        yield batch;
      }
    },
    async list(prefix, options = {}) {
      lists.push(options);
      return raw.list(prefix, options);
    },
    async get(key, options) {
      const entry = await raw.get(key, options);
      if (key.includes(userId)) await reads.opened;
      return entry;
    },
  });
  resources = new ResourceService({ store, log: silentLogger(), now: Date.now, newId: () => crypto.randomUUID() });
  directory = await Directory.open({ store, resources, now: Date.now });
  for (const name of ['shop', 'blog']) {
    const spec = { name, meta: {}, isSystem: false, deployTimeoutMs: 60_000 };
    await resources.create(appType, { id: name, spec }, { signal });
  }
  await resources.create(userType, { id: userId, spec: { name: 'bob' } }, { signal });
  const grant = { appId: app.id, kind: 'user' as const, subjectId: userId, role: 'developer' as const };
  const id = grantId(app.id, 'user', userId);
  await resources.create(grantType, { id, owner: ownedBy(app.id), spec: grant }, { signal });
  await resources.create(tokenType, { id: tokenId, spec: { name: 't', hash, role: 'admin', userId } }, { signal });
});
afterEach(async () => {
  news.open();
  reads.open();
  await directory[Symbol.asyncDispose]();
  await store.close();
});

async function come() {
  const bob = await directory.authenticate(text, signal);
  assert.ok(bob !== undefined);
  return bob;
}

test('what is open ends with the role that it was opened by, also if its caller is refused something in between', async () => {
  for (const isRefused of [false, true]) {
    const bob = await come();
    assert.equal(bob.levelOn(app), 'developer');
    news.shut();
    const grant = {
      id: grantId(app.id, 'user', userId),
      spec: { appId: app.id, kind: 'user' as const, subjectId: userId },
    };
    await resources.delete(grantType, grant.id, { signal });
    if (isRefused) await directory.again(bob, undefined, signal);
    news.open();
    await waitFor(() => bob.signal?.aborted, { what: 'the end of what is open', ...waiting });
    assert.equal((await come()).levelOn(app), 'none');
    const spec = { ...grant.spec, role: 'developer' as const };
    await resources.create(grantType, { id: grant.id, owner: ownedBy(app.id), spec }, { signal });
    const again = await directory.again(await come(), undefined, signal);
    assert.equal(again?.levelOn(app), 'developer', 'given once more it counts at once');
  }
});

test('who has less is denied what is under way and told to ask again; only whose token or user is gone is told to log in', async () => {
  const less = await come();
  await resources.delete(grantType, grantId(app.id, 'user', userId), { signal });
  await waitFor(() => less.signal?.aborted, { what: 'the end of what is open', ...waiting });
  const reason: unknown = less.signal?.reason;
  assert.ok(hasCode(reason, 'denied'), String(reason));
  assert.match(reason.message, /login is good.*ask again/);
  assert.equal(typeof reason.detail['retryAfterMs'], 'number');

  const gone = await come();
  await resources.delete(tokenType, tokenId, { signal });
  await waitFor(() => gone.signal?.aborted, { what: 'the end of what is open', ...waiting });
  assert.ok(hasCode(gone.signal?.reason, 'unauthenticated'), String(gone.signal?.reason));
});

test('who is given more is not disturbed, and has it at once', async () => {
  const bob = await come();
  news.shut();
  const spec = { appId: 'blog', kind: 'user' as const, subjectId: userId, role: 'viewer' as const };
  await resources.create(grantType, { id: grantId('blog', 'user', userId), owner: ownedBy('blog'), spec }, { signal });
  const asked = directory.again(bob, undefined, signal);
  news.open();
  const more = await asked;
  assert.equal(more?.levelOn({ id: 'blog', isSystem: false }), 'viewer');
  assert.equal((await come()).levelOn({ id: 'blog', isSystem: false }), 'viewer');
  assert.equal(more?.signal?.aborted, false);
  assert.equal(bob.signal?.aborted, false);
});

test('a token that is taken back while it is looked up lets nobody in', async () => {
  reads.shut();
  const asked = directory.authenticate(text, signal);
  const isHeard = () => directory.tokens.snapshot.entries.has(tokenId);
  await waitFor(isHeard, { what: 'the token', ...waiting });
  await resources.delete(tokenType, tokenId, { signal });
  await waitFor(() => !isHeard(), { what: 'its end', ...waiting });
  reads.open();
  assert.equal(await asked, undefined);
});

test('nor does one that is taken back while its owner is about to be refused', async () => {
  const bob = await come();
  reads.shut();
  const asked = directory.again(bob, undefined, signal);
  await resources.delete(tokenType, tokenId, { signal });
  await waitFor(() => bob.signal?.aborted, { what: 'the end of what is open', ...waiting });
  reads.open();
  assert.equal(await asked, undefined);
});

test('however many are turned away at one time, what was given is looked for once, without reading it', async () => {
  const bob = await come();
  lists.length = 0;
  await Promise.all(Array.from({ length: 50 }, async () => directory.again(bob, undefined, signal)));
  assert.ok(lists.length > 0 && lists.length <= 4, `${lists.length} listings`);
  assert.ok(lists.every(({ isKeysOnly }) => isKeysOnly === true));
});

test('who comes with tokens that nobody knows is counted, all together; one that was made meanwhile is good', async () => {
  const strangers = new RateLimit({ burst: 3, perSecond: 1 }, () => 0);
  await using counting = await Directory.open({ store, resources, now: Date.now, strangers });
  const unknown = () => counting.authenticate(newTokenText(shortId()).text, signal);
  for (let count = 0; count < 3; count += 1) assert.equal(await unknown(), undefined);
  await assert.rejects(unknown(), (error) => hasCode(error, 'exhausted') && /that nobody knows/.test(error.message));
  assert.equal(await counting.authenticate('nonsense', signal), undefined, 'the store is not asked');
  const { text: later, hash } = newTokenText('aaaaaaaaaaaa');
  await resources.create(
    tokenType,
    { id: 'aaaaaaaaaaaa', spec: { name: 't', hash, role: 'admin', userId } },
    { signal },
  );
  const probe = async () => counting.authenticate(later, signal).catch(() => undefined);
  assert.ok(await waitFor(probe, { what: 'the token to be known', ...waiting }));
});
