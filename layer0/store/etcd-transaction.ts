/** How does a transaction go over the wire, and what does etcd's answer to it say? */
import type { ITxnRequest } from 'etcd3';
import type { Answer } from './etcd-fence.ts';
import { compareOf, entryOf, requestOf } from './etcd-wire.ts';
import type { Operation, Transaction, TransactionResult } from './store.ts';

export function txnOf(transaction: Transaction): Required<ITxnRequest> {
  return {
    compare: (transaction.compare ?? []).map(compareOf),
    success: transaction.then.map(requestOf),
    failure: (transaction.else ?? []).map(requestOf),
  };
}

export function resultOf(transaction: Transaction, answer: Answer): TransactionResult {
  const branch = answer.succeeded ? transaction.then : (transaction.else ?? []);
  const reads = answer.responses
    .filter((_, index) => isRead(branch[index]))
    .map((response) => Object.freeze(response.response_range.kvs.map(entryOf)));
  return Object.freeze({
    succeeded: answer.succeeded,
    revision: Number(answer.header.revision),
    reads: Object.freeze(reads),
  });
}

export function isReadOnly({ then }: Transaction): boolean {
  return then.every(isRead);
}

function isRead(operation: Operation | undefined): boolean {
  return operation !== undefined && ('get' in operation || 'list' in operation);
}
