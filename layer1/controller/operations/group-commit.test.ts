import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { createMemoryStore } from '@flynn/store/memory';
import type { Store, Transaction } from '@flynn/store/store';
import { GroupCommit } from './group-commit.ts';

function counting(store: Store): Pick<Store, 'transact'> & { transactions: Transaction[] } {
  const transactions: Transaction[] = [];
  return {
    transactions,
    transact(transaction, options) {
      transactions.push(transaction);
      return store.transact(transaction, options);
    },
  };
}

const put = (key: string, value = 'x') => ({ put: key, value });

test('what is asked for at the same time goes in one transaction, what comes meanwhile in the next', async () => {
  await using store = createMemoryStore();
  const counted = counting(store);
  const commit = new GroupCommit(counted);
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, index) => commit.submit({ then: [put(`/k${index}`)] })),
  );
  assert.ok(answers.every(({ isCommitted }) => isCommitted));
  assert.equal(counted.transactions.length, 1);
  assert.equal((await store.list('/k')).entries.length, 50);
  await Promise.all(Array.from({ length: 300 }, (_, index) => commit.submit({ then: [put(`/k${index}`)] })));
  assert.equal(counted.transactions.length, 1 + 3, 'no more than etcd takes at once');
});

test('one whose condition does not hold is told how it is, the others go through', async () => {
  await using store = createMemoryStore();
  await store.transact({ then: [put('/there', 'old')] });
  const commit = new GroupCommit(store);
  const [refused, fine, deleted] = await Promise.all([
    commit.submit({ compare: [{ key: '/there', modRevision: 0 }], then: [put('/there', 'new')] }),
    commit.submit({ compare: [{ key: '/new', modRevision: 0 }], then: [put('/new')] }),
    commit.submit({ compare: [{ key: '/gone', modRevision: 7 }], then: [put('/gone')] }),
  ]);
  assert.ok(refused !== undefined && !refused.isCommitted);
  assert.equal(refused.entries.get('/there')?.value, 'old');
  assert.equal(fine?.isCommitted, true);
  assert.ok(deleted !== undefined && !deleted.isCommitted);
  assert.equal(deleted.entries.get('/gone'), undefined);
  assert.equal((await store.get('/there'))?.value, 'old');
  assert.equal((await store.get('/new'))?.value, 'x');
});

test('when the store fails everybody of that transaction is told, and the next goes on', async () => {
  await using store = createMemoryStore();
  let isAway = true;
  const commit = new GroupCommit({
    transact(transaction) {
      if (isAway) return Promise.reject(new FlynnError('unavailable', 'etcd is away'));
      return store.transact(transaction);
    },
  });
  const answers = await Promise.allSettled([
    commit.submit({ then: [put('/a')] }),
    commit.submit({ then: [put('/b')] }),
  ]);
  assert.ok(answers.every((answer) => answer.status === 'rejected' && hasCode(answer.reason, 'unavailable')));
  isAway = false;
  assert.equal((await commit.submit({ then: [put('/a')] })).isCommitted, true);
  const many = Array.from({ length: 121 }, (_, index) => put(`/${index}`));
  await assert.rejects(commit.submit({ then: many }), (error) => hasCode(error, 'invalid'));
});

test('whatever is asked for together, it ends as if one had gone after the other', async () => {
  const pieces = fc.array(fc.record({ keys: fc.uniqueArray(fc.nat(4), { minLength: 1 }), isNew: fc.boolean() }), {
    maxLength: 30,
  });
  await fc.assert(
    fc.asyncProperty(pieces, async (asked) => {
      await using store = createMemoryStore();
      const commit = new GroupCommit(store);
      const answers = await Promise.all(
        asked.map(({ keys, isNew }, index) =>
          commit.submit({
            compare: isNew ? keys.map((key) => ({ key: `/${key}`, modRevision: 0 })) : [],
            then: keys.map((key) => put(`/${key}`, String(index))),
          }),
        ),
      );
      const { entries } = await store.list('/');
      for (const { key, value } of entries) {
        const writer = answers[Number(value)];
        assert.ok(writer?.isCommitted, `${key} was written by one that was refused`);
      }
      for (const key of [0, 1, 2, 3, 4]) {
        const made = asked.filter((one, i) => one.isNew && one.keys.includes(key) && answers[i]?.isCommitted);
        assert.ok(made.length <= 1, 'only one can be the first');
        const isWritten = asked.some(({ keys }, i) => keys.includes(key) && answers[i]?.isCommitted);
        assert.equal(
          entries.some((entry) => entry.key === `/${key}`),
          isWritten,
        );
      }
    }),
    { numRuns: 50 },
  );
});
