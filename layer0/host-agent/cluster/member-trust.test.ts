import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { createAuthority } from '@flynn/kit/tls';
import { createMemoryStore } from '@flynn/store/memory';
import { hostAuthoritiesOf, trustedOnly } from '../trust/authorities.ts';
import { etcdResident, readResident, residentFile, tlsFiles, trustedBy, withTrusted } from './etcd-resident.ts';
import { MemberTrust, trustedDigest, turnKey } from './member-trust.ts';

const { signal } = new AbortController();

/** Hosts with members of one etcd: who is asked, and who starts again while another does. */
async function openMembers(ids: readonly string[]) {
  await using failed = new AsyncDisposableStack();
  const store = createMemoryStore();
  const dir = await mkdtemp(join(tmpdir(), 'flynn-member-'));
  failed.defer(() => rm(dir, { recursive: true, force: true }));
  const down = new Set<string>();
  const all: { onAsked?: () => Promise<void> } = {};
  const starting: string[] = [];
  const members = new Map<string, { trust: MemberTrust; stateDir: string; starts: number }>();
  for (const id of ids) {
    const stateDir = join(dir, id);
    await mkdir(join(stateDir, 'tls'), { recursive: true });
    await mkdir(dirname(residentFile(stateDir)), { recursive: true });
    await writeFile(join(stateDir, tlsFiles.authority), 'former');
    const resident = etcdResident({ cluster: 'flynn', hostId: id, address: '192.0.2.7', image: 'etcd:1', stateDir });
    await writeFile(residentFile(stateDir), JSON.stringify(resident));
    let running: string | undefined;
    const host = {
      stateDir,
      starts: 0,
      trust: new MemberTrust({
        hostId: id,
        stateDir,
        store,
        voters: async () => ids,
        own: id,
        async ask(url) {
          await all.onAsked?.();
          if (down.has(url)) throw new FlynnError('unavailable', `${url} is down`);
        },
        runs(trusted) {
          if (running === trusted) return true;
          // What looks after residents takes the file up a moment later.
          starting.push(id);
          assert.deepEqual([...new Set(starting)], [id], 'one at a time');
          void readResident(stateDir).then((now) => {
            running = now === undefined ? undefined : trustedBy(now);
            host.starts += 1;
            starting.length = 0;
          });
          return false;
        },
        log: silentLogger(),
      }),
    };
    members.set(id, host);
  }
  const closing = failed.move();
  return Object.assign(all, {
    store,
    down,
    members,
    at(id: string) {
      const host = members.get(id);
      assert.ok(host);
      return host;
    },
    async tell(authorities: string) {
      for (const { stateDir } of members.values()) await writeFile(join(stateDir, tlsFiles.authority), authorities);
    },
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  });
}

test('a member starts again once for whom it is to trust by now, one after the other, and the turn is given back', async () => {
  await using all = await openMembers(['h1', 'h2', 'h3']);
  await all.tell('former and new');
  for (const { trust, stateDir } of all.members.values()) {
    const before = await readResident(stateDir);
    const digest = await trustedDigest(stateDir);
    assert.ok(before && digest !== undefined);
    await trust.follow(signal);
    await trust.follow(signal);
    assert.deepEqual(await readResident(stateDir), withTrusted(before, digest));
  }
  assert.deepEqual(
    [...all.members.values()].map(({ starts }) => starts),
    [1, 1, 1],
  );
  assert.equal(await all.store.get(turnKey), undefined);
});

test('a member starts again when one more is to be trusted and when one is not any more, not when the other issues', async () => {
  await using all = await openMembers(['h1']);
  const { trust, stateDir } = all.at('h1');
  const [former, next] = [await createAuthority('flynn'), await createAuthority('flynn')];
  const starts: number[] = [];
  for (const [issuing = former, also] of [[former], [former, next], [next, former], [next]]) {
    await all.tell(
      hostAuthoritiesOf({
        authority: issuing,
        ...(also === undefined ? {} : { alsoTrusted: await trustedOnly(also) }),
      }),
    );
    await trust.follow(signal);
    starts.push(all.at('h1').starts);
  }
  assert.deepEqual(starts, [1, 2, 2, 3]);
  const alone = createHash('sha256').update(next.certificate).digest('hex');
  assert.ok(alone.startsWith((await trustedDigest(stateDir)) ?? 'none'), 'of one alone it is what it always was');
});

test('while it is another’s turn, or another does not answer, nothing happens to it', async () => {
  await using all = await openMembers(['h1', 'h2']);
  await all.tell('former and new');
  const { trust, stateDir } = all.at('h1');
  const before = await readResident(stateDir);
  await all.store.transact({ then: [{ put: turnKey, value: '{"hostId":"h2"}' }] });
  await assert.rejects(
    trust.follow(signal),
    (error) => hasCode(error, 'unavailable') && /another member/.test(String(error)),
  );
  await all.store.transact({ then: [{ delete: turnKey }] });
  all.down.add('h2');
  await assert.rejects(
    trust.follow(signal),
    (error) => hasCode(error, 'unavailable') && /h2 is down/.test(String(error)),
  );
  assert.deepEqual(await readResident(stateDir), before);
  assert.equal(await all.store.get(turnKey), undefined, 'the turn is given back');
  all.down.delete('h2');
  await trust.follow(signal);
  assert.equal(all.at('h1').starts, 1);
});

test('a host without a member has none started', async () => {
  await using all = await openMembers(['h1']);
  await all.tell('former and new');
  const { trust, stateDir } = all.at('h1');
  await rm(residentFile(stateDir));
  await trust.follow(signal);
  assert.equal(await readResident(stateDir), undefined);
});

test('a member that is taken away while it has its turn stays away', async () => {
  await using all = await openMembers(['h1', 'h2']);
  await all.tell('former and new');
  const { trust, stateDir } = all.at('h1');
  all.onAsked = () => rm(residentFile(stateDir));
  await assert.rejects(
    trust.follow(signal),
    (error) => hasCode(error, 'unavailable') && /became another/.test(String(error)),
  );
  assert.equal(await readResident(stateDir), undefined);
  assert.equal(await all.store.get(turnKey), undefined, 'the turn is given back');
  await trust.follow(signal);
  assert.equal(all.at('h1').starts, 0);
});
