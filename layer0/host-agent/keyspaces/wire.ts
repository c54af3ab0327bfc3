/**
 * What of etcd's JSON gateway may be asked for: the fields of each request, and nothing beside them. Names are etcd's own. 64-bit
 * numbers come as text or as numbers that JSON carries exactly, bytes as base64 in its one standard form.
 */
import { z } from 'zod';

export const maxValueBytes = 512 * 1024;
const maxKeyBytes = 1_024;
/** What etcd takes in a transaction unless told otherwise. */
export const maxOperations = 128;
/** Patroni nests once. */
const maxNesting = 3;

/** A key, or the end of a range: opaque, so that it gets to etcd by way of the confinement alone. */
export type Bytes = Readonly<{ bytes: Buffer }>;

const base64 = (maxBytes: number) =>
  z
    .string()
    .refine((text) => Buffer.byteLength(text, 'base64') <= maxBytes, `it is to have ${maxBytes} bytes at most`)
    .refine((text) => Buffer.from(text, 'base64').toString('base64') === text, 'it is to be base64, with its padding');

const bytes = base64(maxKeyBytes).transform((text): Bytes => ({ bytes: Buffer.from(text, 'base64') }));

const maxInt64 = 2n ** 63n - 1n;
const int64 = z
  .union([
    z.int('numbers beyond 2^53 are to be text').nonnegative(),
    z.string().regex(/^\d{1,19}$/, 'it is to be a whole number'),
  ])
  .transform((given) => BigInt(given))
  .refine((given) => given <= maxInt64, 'it is beyond 2^63')
  .transform(String);

const place = { key: bytes, range_end: bytes.optional() };

export const rangeSchema = z.strictObject({
  ...place,
  limit: int64.optional(),
  revision: int64.optional(),
  sort_order: z.enum(['NONE', 'ASCEND', 'DESCEND']).optional(),
  sort_target: z.enum(['KEY', 'VERSION', 'CREATE', 'MOD', 'VALUE']).optional(),
  serializable: z.boolean().optional(),
  keys_only: z.boolean().optional(),
  count_only: z.boolean().optional(),
});
export type Range = z.output<typeof rangeSchema>;

export const putSchema = z.strictObject({
  key: bytes,
  value: base64(maxValueBytes).optional(),
  lease: int64.optional(),
  prev_kv: z.boolean().optional(),
});
export type Put = z.output<typeof putSchema>;

export const deleteRangeSchema = z.strictObject({ ...place, prev_kv: z.boolean().optional() });
export type DeleteRange = z.output<typeof deleteRangeSchema>;

const compareSchema = z.strictObject({
  ...place,
  target: z.enum(['VERSION', 'CREATE', 'MOD', 'VALUE']),
  result: z.enum(['EQUAL', 'GREATER', 'LESS', 'NOT_EQUAL']).optional(),
  version: int64.optional(),
  create_revision: int64.optional(),
  mod_revision: int64.optional(),
  value: base64(maxValueBytes).optional(),
});
export type Compare = z.output<typeof compareSchema>;

export type Operation =
  | Readonly<{ request_range: Range }>
  | Readonly<{ request_put: Put }>
  | Readonly<{ request_delete_range: DeleteRange }>
  | Readonly<{ request_txn: Txn }>;
export type Txn = Readonly<{
  compare: readonly Compare[];
  success: readonly Operation[];
  failure: readonly Operation[];
}>;

const simpleOperations = [
  z.strictObject({ request_range: rangeSchema }),
  z.strictObject({ request_put: putSchema }),
  z.strictObject({ request_delete_range: deleteRangeSchema }),
] as const;

function txnOfDepth(nesting: number): z.ZodType<Txn> {
  const operation: z.ZodType<Operation> =
    nesting === 0
      ? z.union(simpleOperations)
      : z.union([...simpleOperations, z.strictObject({ request_txn: txnOfDepth(nesting - 1) })]);
  const operations = z.array(operation).max(maxOperations).default([]);
  return z.strictObject({
    compare: z.array(compareSchema).max(maxOperations).default([]),
    success: operations,
    failure: operations,
  });
}

export const txnSchema = txnOfDepth(maxNesting);

export const watchSchema = z.strictObject({
  create_request: z.strictObject({
    ...place,
    start_revision: int64.optional(),
    progress_notify: z.boolean().optional(),
    prev_kv: z.boolean().optional(),
    filters: z
      .array(z.enum(['NOPUT', 'NODELETE']))
      .max(2)
      .optional(),
  }),
});

export const minTtlSeconds = 5;
export const maxTtlSeconds = 600;

export const grantSchema = z.strictObject({
  TTL: int64.refine(
    (seconds) => Number(seconds) >= minTtlSeconds && Number(seconds) <= maxTtlSeconds,
    `it is to be of ${minTtlSeconds} to ${maxTtlSeconds} seconds`,
  ),
});

export const keepaliveSchema = z.strictObject({ ID: int64 });

export const authenticateSchema = z.strictObject({ name: z.string().max(256), password: z.string().max(1_024) });

/** What etcd answers, as far as the door goes by it. What is 0 is left out. */
export const grantedSchema = z.object({ ID: z.string(), TTL: z.coerce.number() });
export const keptAliveSchema = z.object({ result: z.object({ TTL: z.coerce.number().default(0) }) });
export const timeToLiveSchema = z.object({
  TTL: z.coerce.number().default(0),
  keys: z.array(z.string()).default([]),
});
export const countedSchema = z.object({ count: z.coerce.number().default(0) });
