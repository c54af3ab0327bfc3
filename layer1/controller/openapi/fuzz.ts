/** Requests out of an OpenAPI document: some as it asks for, most of them not. For tests; the same seed gives the same. */
import { z } from 'zod';

const schemaSchema = z.looseObject({
  type: z.string().optional(),
  enum: z.array(z.unknown()).optional(),
  const: z.unknown().optional(),
  anyOf: z.array(z.unknown()).optional(),
  oneOf: z.array(z.unknown()).optional(),
  properties: z.record(z.string(), z.unknown()).optional(),
  additionalProperties: z.unknown().optional(),
  items: z.unknown().optional(),
});

const parameterSchema = z.looseObject({
  name: z.string(),
  in: z.enum(['path', 'query', 'header']),
  schema: z.unknown(),
});
const contentSchema = z.record(z.string(), z.looseObject({ schema: z.unknown().optional() }));
const operationSchema = z.looseObject({
  operationId: z.string(),
  parameters: z.array(parameterSchema),
  requestBody: z.looseObject({ required: z.boolean().optional(), content: contentSchema }).optional(),
  responses: z.record(z.string(), z.looseObject({ content: contentSchema.optional() })),
});
export const documentSchema = z.looseObject({
  paths: z.record(z.string(), z.record(z.string(), operationSchema)),
});
type Operation = z.output<typeof operationSchema>;

export type FuzzedRequest = { method: string; url: string; headers: Record<string, string>; body?: string };

/** A small generator of Marsaglia's xorshift family, 32 bits: enough to pick with. Gives whole numbers below the limit. */
export function randomOf(seed: number): (limit: number) => number {
  let state = seed | 1;
  return (limit) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % limit;
  };
}

type Random = (limit: number) => number;

const oddTexts = [
  '',
  ' ',
  'x',
  'v1',
  '..',
  '../../etc/passwd',
  '%00',
  '\0',
  '\u{1f4a9}',
  '\ud800',
  'é'.repeat(60),
  'a'.repeat(5_000),
  '<script>',
  "'; drop table",
  '-1',
  '__proto__',
  'constructor',
  '2026-13-99T99:99:99Z',
  'SHA256:xx',
  'flynn_aaaaaaaaaaaa_x',
  '*.example.com',
  'user@host',
];
const oddValues: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  1e308,
  Number.MAX_SAFE_INTEGER,
  [],
  {},
  [[[]]],
  { __proto__: null, a: { b: 1 } },
  ...oddTexts,
];

export function fuzzedRequest(
  [path, method, operation]: readonly [path: string, method: string, operation: Operation],
  known: readonly string[],
  random: Random,
): FuzzedRequest {
  const pick = <T>(from: readonly T[]): T | undefined => from[random(from.length)];
  const headers: Record<string, string> = {};
  const query = new URLSearchParams();
  let url = path;
  for (const parameter of operation.parameters) {
    if (parameter.in === 'path') {
      // Mostly what is there: the code behind it is what is to be reached.
      const value = ((random(4) > 0 ? pick(known) : pick(oddTexts)) ?? 'x').toWellFormed();
      url = url.replace(`{${parameter.name}}`, encodeURIComponent(value === '' || /^\.+$/.test(value) ? 'x' : value));
    } else if (random(2) === 0) {
      const value = valueOf(parameter.schema, known, random, 0);
      const text = (typeof value === 'string' ? value : JSON.stringify(value)).toWellFormed();
      if (parameter.in === 'query') query.append(parameter.name, text);
      else if (/^[\x20-\x7e]+$/.test(text.trim())) headers[parameter.name] = text.trim();
    }
  }
  if (random(10) === 0) query.append('odd', 'x');
  const request: FuzzedRequest = {
    method: method.toUpperCase(),
    url: query.size === 0 ? url : `${url}?${String(query)}`,
    headers,
  };
  const [type, content] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  if (type === undefined) return request;
  headers['content-type'] = type;
  const schema = content?.schema;
  if (schema === undefined) return { ...request, body: pick(oddTexts)?.toWellFormed() ?? '' };
  const text = JSON.stringify(valueOf(schema, known, random, 0)) ?? 'null';
  return { ...request, body: random(12) === 0 ? text.slice(0, random(text.length)) : text };
}

/** One that fits the schema, with faults strewn in. */
function valueOf(given: unknown, known: readonly string[], random: Random, depth: number): unknown {
  const pick = <T>(from: readonly T[]): T | undefined => from[random(from.length)];
  const inner = (schema: unknown): unknown => valueOf(schema, known, random, depth + 1);
  const parsed = schemaSchema.safeParse(given);
  if (!parsed.success || depth > 6 || random(12) === 0) return pick(oddValues);
  const schema = parsed.data;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return pick(schema.enum);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return inner(pick(choices));
  switch (schema.type) {
    case 'string':
      return random(3) > 0 ? pick(known) : pick(oddTexts);
    case 'integer':
    case 'number':
      return pick([0, 1, 2, 3, 80, 8_080, 65_536, 120_000, -1, 2 ** 31, 2 ** 53]);
    case 'boolean':
      return random(2) === 0;
    case 'null':
      return null;
    case 'array':
      return Array.from({ length: random(4) }, () => inner(schema.items));
    case 'object': {
      const own = Object.entries(schema.properties ?? {}).filter(() => random(5) > 0);
      const entries = own.map(([name, property]) => [name, inner(property)] as const);
      const more = typeof schema.additionalProperties === 'object' ? random(3) : 0;
      for (let index = 0; index < more; index += 1) {
        entries.push([String(pick(['web', 'worker', ...known, ...oddTexts])), inner(schema.additionalProperties)]);
      }
      return Object.fromEntries(entries);
    }
    case undefined:
    default:
      return pick(oddValues);
  }
}
