/** Is a request about keys of its keyspace alone, and what of it goes to etcd? What is not known of it does not. */
import { z } from 'zod';
import { Refusal } from './refusal.ts';
import {
  type Bytes,
  type Operation,
  type Put,
  type Txn,
  deleteRangeSchema,
  maxOperations,
  putSchema,
  rangeSchema,
  txnSchema,
  watchSchema,
} from './wire.ts';

/** What may go to etcd. */
export type Confined = Readonly<{
  body: object;
  /** That it attaches to keys: whose they are is not known yet. */
  leases: readonly string[];
  /** So many it may add to the keyspace, with so many bytes. */
  keys: number;
  bytes: number;
}>;

export type Confine = (body: unknown, prefix: string) => Confined;

export const confineRange: Confine = (body, prefix) => {
  const { key, range_end, ...rest } = parse(rangeSchema, body);
  return reading({ ...insideOf(prefix)(key, range_end), ...rest });
};

export const confineDeleteRange: Confine = (body, prefix) => {
  const { key, range_end, ...rest } = parse(deleteRangeSchema, body);
  return reading({ ...insideOf(prefix)(key, range_end), ...rest });
};

export const confineWatch: Confine = (body, prefix) => {
  const { key, range_end, ...rest } = parse(watchSchema, body).create_request;
  return reading({ create_request: { ...insideOf(prefix)(key, range_end), ...rest } });
};

export const confinePut: Confine = (body, prefix) => {
  const tally = new Tally();
  return tally.confined(putOf(parse(putSchema, body), insideOf(prefix), tally));
};

export const confineTxn: Confine = (body, prefix) => {
  const tally = new Tally();
  return tally.confined(txnOf(parse(txnSchema, body), insideOf(prefix), tally));
};

/** All keys of a keyspace, as etcd's gateway is asked for them. */
export function wholeOf(prefix: string): { key: string; range_end: string } {
  return { key: Buffer.from(prefix).toString('base64'), range_end: endOf(prefix).toString('base64') };
}

/** Keys as etcd's gateway has them, base64, as in what it answers of a lease. */
export function areInside(keys: readonly string[], prefix: string): boolean {
  const start = Buffer.from(prefix);
  return keys.every((key) => startsWith(Buffer.from(key, 'base64'), start));
}

/** Throws what drivers are told of a request that is not as it should be. */
export function parse<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  throw new Refusal('invalid', `the request is not one that a keyspace takes:\n${z.prettifyError(parsed.error)}`);
}

function reading(body: object): Confined {
  return { body, leases: [], keys: 0, bytes: 0 };
}

class Tally {
  readonly #leases = new Set<string>();
  #operations = 0;
  #keys = 0;
  #bytes = 0;

  put({ key, value = '', lease = '0' }: Put): void {
    this.#keys += 1;
    this.#bytes += key.bytes.length + Buffer.byteLength(value, 'base64');
    // 0 is no lease.
    if (lease !== '0') this.#leases.add(lease);
  }

  operation(): void {
    this.#operations += 1;
    if (this.#operations > maxOperations) {
      throw new Refusal('invalid', `a transaction has ${maxOperations} operations at most: make several of it`);
    }
  }

  confined(body: object): Confined {
    return { body, leases: [...this.#leases], keys: this.#keys, bytes: this.#bytes };
  }
}

/** A key, or all from it on up to an end, as the gateway has them. */
type Inside = (key: Bytes, rangeEnd?: Bytes) => { key: string; range_end?: string };

/**
 * An end that is nothing is none: one key. etcd takes one of a single zero byte for "all there is from the key on", so an
 * end has to lie behind its key, which no such does, and not behind the end of the keyspace.
 */
function insideOf(prefix: string): Inside {
  const start = Buffer.from(prefix);
  const end = endOf(prefix);
  return (key, rangeEnd) => {
    if (!startsWith(key.bytes, start)) throw outside(key, prefix);
    const wire = { key: key.bytes.toString('base64') };
    if (rangeEnd === undefined || rangeEnd.bytes.length === 0) return wire;
    const isBehind = Buffer.compare(rangeEnd.bytes, key.bytes) > 0;
    if (!isBehind || Buffer.compare(rangeEnd.bytes, end) > 0) throw outside(rangeEnd, prefix);
    return { ...wire, range_end: rangeEnd.bytes.toString('base64') };
  };
}

/** A prefix ends with a slash: there is a byte after that. */
function endOf(prefix: string): Buffer {
  const end = Buffer.from(prefix);
  end.writeUInt8(end.readUInt8(end.length - 1) + 1, end.length - 1);
  return end;
}

function startsWith(key: Buffer, start: Buffer): boolean {
  return key.subarray(0, start.length).equals(start);
}

function outside({ bytes }: Bytes, prefix: string): Refusal {
  const shown = JSON.stringify(bytes.subarray(0, 100).toString());
  return new Refusal('outside', `${shown} is not inside of ${prefix}, where all keys and ends of ranges have to be`);
}

function txnOf({ compare, success, failure }: Txn, inside: Inside, tally: Tally): object {
  return {
    compare: compare.map(({ key, range_end, ...rest }) => {
      tally.operation();
      return { ...inside(key, range_end), ...rest };
    }),
    success: success.map((operation) => operationOf(operation, inside, tally)),
    failure: failure.map((operation) => operationOf(operation, inside, tally)),
  };
}

function operationOf(operation: Operation, inside: Inside, tally: Tally): object {
  tally.operation();
  if ('request_put' in operation) return { request_put: putOf(operation.request_put, inside, tally) };
  if ('request_txn' in operation) return { request_txn: txnOf(operation.request_txn, inside, tally) };
  if ('request_range' in operation) {
    const { key, range_end, ...rest } = operation.request_range;
    return { request_range: { ...inside(key, range_end), ...rest } };
  }
  const { key, range_end, ...rest } = operation.request_delete_range;
  return { request_delete_range: { ...inside(key, range_end), ...rest } };
}

function putOf(put: Put, inside: Inside, tally: Tally): object {
  tally.put(put);
  const { key, ...rest } = put;
  return { ...inside(key), ...rest };
}
