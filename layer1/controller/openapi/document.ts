/** The API as an OpenAPI 3.1 document, made of the same routes that the server checks requests by. Pure. */
import { errorCodes, httpStatusOf } from '@flynn/kit/errors';
import { type Route, bytesType, linesType } from '@flynn/kit/routes';
import { z } from 'zod';
import { ruleOf } from '../access/rules.ts';
import { keyPattern } from '../audit/answers.ts';
import { keepsAnswers } from '../audit/audited.ts';
import { examples } from './examples.ts';

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
type JsonObject = { [name: string]: Json };

/** Of a json route; the others answer what `kindAnswers` says. */
const errorSchema: JsonObject = {
  type: 'object',
  description: 'What happened, why, and what to do next.',
  properties: {
    code: { type: 'string', enum: [...errorCodes] },
    message: { type: 'string', description: 'For people.' },
    detail: { type: 'object', description: 'For programs.' },
  },
  required: ['code', 'message'],
};

const errorsOfAll: Readonly<Record<string, string>> = {
  invalid: 'The request is not what this route takes; the message says which part.',
  unauthenticated: 'There is no token, or it is not, or no longer, a good one.',
  denied: 'The caller may see this, but not do it.',
  not_found: 'It is not there, or not for this caller to know of.',
  conflict: 'It is not in a state that allows this, or was changed at the same time.',
  exhausted: 'Too many requests: `Retry-After` says in how many seconds to come back.',
  internal: 'A fault of the controller: its log tells it under the request id.',
  unavailable: 'Something the controller needs is away: the request may have been carried out.',
  timeout: 'It took too long: it may still be carried out.',
};

export function openApiDocument(routes: readonly Route[], info: { version: string }): JsonObject {
  const paths: Record<string, JsonObject> = {};
  for (const route of [...routes].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0))) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'flynn controller',
      version: info.version,
      description:
        'Apps, releases, formations, deployments, jobs, routes, and who may do what with them. Times are ISO 8601. `{app}` is an id or a name, `{release}` an id or a version like v3.',
    },
    servers: [{ url: '/' }],
    security: [{ token: [] }],
    tags: [...new Set(routes.map(tagOf))].sort().map((name) => ({ name })),
    paths,
    components: {
      schemas: { Error: errorSchema },
      responses: Object.fromEntries(Object.entries(errorsOfAll).map(([code, text]) => [code, errorAnswer(code, text)])),
      securitySchemes: {
        token: {
          type: 'http',
          scheme: 'bearer',
          description: 'A token as `flynn token create` prints it. The password of basic authentication does too.',
        },
      },
    },
  };
}

function errorAnswer(code: string, description: string): JsonObject {
  const retry: JsonObject =
    code === 'exhausted'
      ? { headers: { 'Retry-After': { description: 'Seconds.', schema: { type: 'integer' } } } }
      : {};
  return { description, ...retry, content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } } };
}

export function operationIdOf({ method, path }: Route): string {
  const words = path
    .split('/')
    .flatMap((part) => part.split(/[^a-zA-Z]+/))
    .filter((word) => word !== '');
  return [method.toLowerCase(), ...words.map((word) => word.charAt(0).toUpperCase() + word.slice(1))].join('');
}

function tagOf({ path }: Route): string {
  return path.split('/').find((part) => part !== '') ?? '';
}

function operationOf(route: Route): JsonObject {
  const id = operationIdOf(route);
  const example = examples[id];
  const isOpen = route.access === 'open';
  return {
    operationId: id,
    tags: [tagOf(route)],
    summary: route.summary,
    ...(isOpen ? { security: [] } : { description: `For: ${whoOf(route)}.` }),
    parameters: [...pathParameters(route), ...queryParameters(route), ...headerParameters(route)],
    ...requestBodyOf(route, example?.body),
    responses: { ...goodAnswer(route, example?.response), ...errorAnswers(isOpen) },
  };
}

function requestBodyOf({ body, bodyTypes }: Route, example: unknown): JsonObject {
  if (body === undefined) return {};
  const content = bodyTypes.map((type) => [
    type,
    body === 'stream' ? contentOf(type) : { schema: schemaOf(body, 'input'), ...exampleOf(example) },
  ]);
  const required = body === 'stream' || !body.safeParse(undefined).success;
  return { requestBody: { required, content: Object.fromEntries(content) } };
}

function whoOf(route: Route): string {
  const rule = ruleOf(route.access);
  if (rule.of === 'anybody') return 'anybody who is known; each sees their own';
  if (rule.of === 'app') return `the role ${rule.role} on the app`;
  return rule.of === 'cluster' ? `the role ${rule.role} on the cluster` : `the role ${rule.role} on any app`;
}

function exampleOf(value: unknown): JsonObject {
  return value === undefined ? {} : { example: jsonOf(value) };
}

function jsonOf(value: unknown): Json {
  return JSON.parse(JSON.stringify(value)) as Json;
}

function pathParameters({ params }: Route): JsonObject[] {
  return params.map((name) => ({ name, in: 'path', required: true, schema: { type: 'string', minLength: 1 } }));
}

function queryParameters({ query }: Route): JsonObject[] {
  if (query === undefined) return [];
  const { properties, required } = schemaOf(query, 'input');
  const needed = Array.isArray(required) ? required : [];
  return Object.entries((properties ?? {}) as JsonObject).map(([name, schema]) => ({
    name,
    in: 'query',
    required: needed.includes(name),
    schema,
  }));
}

function headerParameters(route: Route): JsonObject[] {
  if (route.isResumable) {
    const description =
      'Goes on after the event of this id, at any controller. 409 with detail.expired where that is not known any more: begin without.';
    return [{ name: 'Last-Event-ID', in: 'header', required: false, description, schema: { type: 'string' } }];
  }
  if (!keepsAnswers(route)) return [];
  const description = 'The same key with the same request gets the first answer, for a day.';
  const schema = { type: 'string', pattern: keyPattern.source };
  return [{ name: 'Idempotency-Key', in: 'header', required: false, description, schema }];
}

function goodAnswer(route: Route, example: unknown): JsonObject {
  const { responseType: type = bytesType } = route;
  if (route.response instanceof z.ZodType) {
    const content = { [type]: { schema: schemaOf(route.response, 'output'), ...exampleOf(example) } };
    return { '200': { description: 'The answer.', content } };
  }
  const content = { [type]: contentOf(type) };
  const answers: Readonly<Record<Route['kind'], JsonObject>> = {
    events: { '200': { description: 'Server-sent events.', content } },
    stream: { '200': { description: type === linesType ? 'Lines of JSON.' : 'The content.', content } },
    upgrade: { '101': { description: 'The connection, upgraded to `flynn`: frames both ways.' } },
    json: {},
    empty: { '204': { description: 'Done.' } },
  };
  return answers[route.kind];
}

/** Of what no schema of ours is for. Bytes have none: that is how OpenAPI 3.1 says it. */
function contentOf(type: string): JsonObject {
  return type.startsWith('text/') || type === linesType ? { schema: { type: 'string' } } : {};
}

function errorAnswers(isOpen: boolean): JsonObject {
  const codes = errorCodes.filter((code) => Object.hasOwn(errorsOfAll, code));
  const possible = isOpen ? codes.filter((code) => code !== 'denied' && code !== 'unauthenticated') : codes;
  return Object.fromEntries(
    possible.map((code) => [String(httpStatusOf(code)), { $ref: `#/components/responses/${code}` }]),
  );
}

/**
 * What a field reads in or gives out; what JSON Schema cannot say is left open. The server refuses fields that a schema does not
 * know, which parsing alone would leave out.
 */
function schemaOf(schema: z.ZodType, io: 'input' | 'output'): JsonObject {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override({ zodSchema: { _zod }, jsonSchema }) {
      if (_zod.def.type === 'object' && jsonSchema.additionalProperties === undefined)
        jsonSchema.additionalProperties = false;
    },
  });
  return jsonOf(rest) as JsonObject;
}
