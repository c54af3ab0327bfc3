/**
 * What in an OpenAPI 3.1 document breaks the rules? A public validator says what breaks the specification's own schema or
 * refers to nothing; here is the rest: what only its text asks for (section 4.8 of 3.1.1), and the schemas of JSON Schema
 * 2020-12, which have to be known to the last keyword. For tests.
 */
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { z } from 'zod';

const securitySchema = z.array(z.record(z.string(), z.array(z.string())));
const documentSchema = z.looseObject({
  security: securitySchema.optional(),
  paths: z.record(
    z.string(),
    z.record(
      z.string(),
      z.looseObject({
        operationId: z.string(),
        parameters: z.array(z.looseObject({ name: z.string(), in: z.string() })).optional(),
        security: securitySchema.optional(),
      }),
    ),
  ),
  components: z
    .looseObject({
      schemas: z.record(z.string(), z.unknown()).optional(),
      securitySchemes: z.record(z.string(), z.unknown()).optional(),
    })
    .optional(),
});
type OpenApi = z.output<typeof documentSchema>;

export async function problemsOf(document: Record<string, unknown>): Promise<string[]> {
  // The validator takes the document apart: it gets one of its own.
  const { valid, errors } = await new Validator().validate(structuredClone(document));
  if (!valid) return [typeof errors === 'string' ? errors : JSON.stringify(errors)];
  const { success, data, error } = documentSchema.safeParse(document);
  if (!success) return [z.prettifyError(error)];
  const version = data['openapi'];
  return [
    ...(typeof version === 'string' && version.startsWith('3.1.') ? [] : [`${String(version)} is not 3.1`]),
    ...operationIdProblems(data),
    ...pathProblems(data),
    ...securityProblems(data),
    ...schemaProblems(data),
  ];
}

function operationIdProblems({ paths }: OpenApi): string[] {
  const ids = Object.values(paths).flatMap((methods) => Object.values(methods).map(({ operationId }) => operationId));
  return ids.filter((id, index) => ids.indexOf(id) !== index).map((id) => `the operationId ${id} is there twice`);
}

function pathProblems({ paths }: OpenApi): string[] {
  return Object.entries(paths).flatMap(([path, methods]) => {
    const named = new Set([...path.matchAll(/\{([^}]+)\}/g)].map((match) => match[1] ?? ''));
    return Object.entries(methods).flatMap(([method, { parameters = [] }]) => {
      const described = new Set(parameters.filter((one) => one.in === 'path').map(({ name }) => name));
      const differing = [...named.symmetricDifference(described)];
      return differing.map((name) => `${method} ${path}: {${name}} is not both in the path and described`);
    });
  });
}

function securityProblems({ security = [], paths, components }: OpenApi): string[] {
  const asked = [
    security,
    ...Object.values(paths).flatMap((methods) => Object.values(methods).map((one) => one.security ?? [])),
  ];
  const names = new Set(asked.flat().flatMap((one) => Object.keys(one)));
  return [...names]
    .filter((name) => components?.securitySchemes?.[name] === undefined)
    .map((name) => `there is no security scheme ${name}`);
}

function schemaProblems(document: OpenApi): string[] {
  const ajv = new Ajv2020({ strictTypes: false, strictTuples: false, validateFormats: false });
  return [...schemasIn(document.paths, '#/paths'), ...schemasIn(document.components ?? {}, '#/components')].flatMap(
    ([at, schema]) => {
      try {
        ajv.compile(schema);
        return [];
      } catch (error) {
        return [`${at}: ${error instanceof Error ? error.message : String(error)}`];
      }
    },
  );
}

/** Every schema, with where it is; what only refers to one is the validator's to follow. */
function schemasIn(value: unknown, at: string): [at: string, schema: object][] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]: [string, unknown]): [string, object][] => {
    if (name === 'example') return [];
    const isSchema = name === 'schema' || at === '#/components/schemas';
    if (!isSchema) return schemasIn(inner, `${at}/${name}`);
    return typeof inner !== 'object' || inner === null || '$ref' in inner ? [] : [[`${at}/${name}`, inner]];
  });
}
