/**
 * What in a document breaks the rules of OpenAPI 3.1 (OpenAPI Specification 3.1.1, section 4.8) or of its schemas (JSON
 * Schema 2020-12)? Strict: fields that the specification does not know are a fault. For tests.
 */
type Fields = Record<string, unknown>;

const rootFields = ['openapi', 'info', 'servers', 'security', 'tags', 'paths', 'components'];
const methods = ['get', 'put', 'post', 'delete', 'patch', 'head', 'options', 'trace'];
const operationFields = [
  'operationId',
  'tags',
  'summary',
  'description',
  'parameters',
  'requestBody',
  'responses',
  'security',
  'deprecated',
];
const parameterFields = ['name', 'in', 'required', 'description', 'schema', 'deprecated', 'example'];
const answerFields = ['description', 'headers', 'content', '$ref'];
const schemaTypes = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'];
const schemaFields = new Set(
  (
    'type enum const anyOf oneOf allOf not properties required additionalProperties propertyNames items prefixItems ' +
    'minItems maxItems minLength maxLength pattern format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf ' +
    'description default examples $ref $defs title contentEncoding'
  ).split(' '),
);

export function problemsOf(document: unknown): string[] {
  return new Rules(document).check();
}

class Rules {
  readonly #document: unknown;
  readonly #problems: string[] = [];
  readonly #operationIds = new Set<string>();

  constructor(document: unknown) {
    this.#document = document;
  }

  check(): string[] {
    const root = this.#fields(this.#document, '#', rootFields);
    if (!/^3\.1\.\d+$/.test(String(root['openapi']))) this.#say('#/openapi', 'is not 3.1');
    const info = this.#fields(root['info'], '#/info', ['title', 'version', 'description', 'license', 'contact']);
    for (const name of ['title', 'version']) {
      if (typeof info[name] !== 'string') this.#say('#/info', `has no ${name}`);
    }
    for (const [path, item] of Object.entries(this.#fields(root['paths'], '#/paths'))) this.#path(path, item);
    const components = this.#fields(root['components'] ?? {}, '#/components', [
      'schemas',
      'responses',
      'securitySchemes',
    ]);
    for (const [name, schema] of Object.entries(this.#fields(components['schemas'] ?? {}, '#/components/schemas'))) {
      this.#schema(schema, `#/components/schemas/${name}`);
    }
    for (const [name, answer] of Object.entries(
      this.#fields(components['responses'] ?? {}, '#/components/responses'),
    )) {
      this.#answer(answer, `#/components/responses/${name}`);
    }
    this.#security(root['security'], '#/security');
    this.#references(this.#document, '#');
    return this.#problems;
  }

  #say(at: string, problem: string): void {
    this.#problems.push(`${at}: ${problem}`);
  }

  #fields(value: unknown, at: string, known?: readonly string[]): Fields {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      this.#say(at, 'is not an object');
      return {};
    }
    for (const name of Object.keys(value)) {
      if (known?.includes(name) === false && !name.startsWith('x-'))
        this.#say(at, `has a field ${name} that does not exist`);
    }
    return Object.fromEntries(Object.entries(value));
  }

  #list(value: unknown, at: string): readonly unknown[] {
    if (Array.isArray(value)) return value;
    this.#say(at, 'is not a list');
    return [];
  }

  #path(path: string, item: unknown): void {
    const at = `#/paths/${path}`;
    if (!path.startsWith('/')) this.#say(at, 'starts with no slash');
    for (const [method, value] of Object.entries(this.#fields(item, at, methods))) this.#operation(path, method, value);
  }

  #operation(path: string, method: string, value: unknown): void {
    const at = `#/paths/${path}/${method}`;
    const operation = this.#fields(value, at, operationFields);
    const id = String(operation['operationId']);
    if (this.#operationIds.has(id)) this.#say(at, `uses the operationId ${id} twice`);
    this.#operationIds.add(id);
    const seen = new Set<string>();
    for (const [index, one] of this.#list(operation['parameters'] ?? [], `${at}/parameters`).entries()) {
      const key = this.#parameter(one, `${at}/parameters/${index}`);
      if (seen.has(key)) this.#say(at, `has the parameter ${key} twice`);
      seen.add(key);
    }
    const named = [...path.matchAll(/\{([^}]+)\}/g)].map((match) => `path ${match[1] ?? ''}`);
    for (const key of named) if (!seen.has(key)) this.#say(at, `does not describe {${key.slice(5)}}`);
    for (const key of seen)
      if (key.startsWith('path ') && !named.includes(key)) this.#say(at, `${key} is not in its path`);
    if (operation['requestBody'] !== undefined) {
      const body = this.#fields(operation['requestBody'], `${at}/requestBody`, ['description', 'content', 'required']);
      if (body['content'] === undefined) this.#say(`${at}/requestBody`, 'has no content');
      else this.#content(body['content'], `${at}/requestBody`);
    }
    const answers = Object.entries(this.#fields(operation['responses'], `${at}/responses`));
    if (answers.length === 0) this.#say(at, 'has no response');
    for (const [status, answer] of answers) {
      if (!/^([1-5]\d\d|[1-5]XX|default)$/.test(status)) this.#say(at, `"${status}" is no status`);
      this.#answer(answer, `${at}/responses/${status}`);
    }
    this.#security(operation['security'], at);
  }

  #parameter(value: unknown, at: string): string {
    const parameter = this.#fields(value, at, parameterFields);
    const where = String(parameter['in']);
    if (!['path', 'query', 'header', 'cookie'].includes(where)) this.#say(at, `cannot be in: ${where}`);
    if (typeof parameter['name'] !== 'string') this.#say(at, 'has no name');
    if (where === 'path' && parameter['required'] !== true) this.#say(at, 'is in the path and has to be required');
    if (parameter['schema'] === undefined) this.#say(at, 'has no schema');
    else this.#schema(parameter['schema'], `${at}/schema`);
    return `${where} ${String(parameter['name'])}`;
  }

  #answer(value: unknown, at: string): void {
    const answer = this.#fields(value, at, answerFields);
    if (answer['$ref'] !== undefined) return;
    if (typeof answer['description'] !== 'string') this.#say(at, 'has no description');
    if (answer['content'] !== undefined) this.#content(answer['content'], at);
  }

  #content(value: unknown, at: string): void {
    for (const [type, media] of Object.entries(this.#fields(value, `${at}/content`))) {
      if (!/^[\w.+-]+\/[\w.+-]+$/.test(type)) this.#say(at, `"${type}" is no media type`);
      const { schema } = this.#fields(media, `${at}/content/${type}`, ['schema', 'example', 'examples']);
      if (schema !== undefined) this.#schema(schema, `${at}/content/${type}/schema`);
    }
  }

  #security(value: unknown, at: string): void {
    if (value === undefined) return;
    for (const one of this.#list(value, at)) {
      for (const [name, scopes] of Object.entries(this.#fields(one, at))) {
        if (this.#target(`#/components/securitySchemes/${name}`) === undefined)
          this.#say(at, `there is no security scheme ${name}`);
        this.#list(scopes, at);
      }
    }
  }

  #schema(value: unknown, at: string): void {
    if (typeof value === 'boolean') return;
    const schema = this.#fields(value, at);
    for (const name of Object.keys(schema))
      if (!schemaFields.has(name)) this.#say(at, `has the keyword ${name}, which is none`);
    for (const type of [schema['type'] ?? []].flat()) {
      if (!schemaTypes.some((known) => known === type))
        this.#say(at, `has the type ${JSON.stringify(type)}, which is none`);
    }
    if (typeof schema['pattern'] === 'string') {
      try {
        RegExp(schema['pattern'], 'u');
      } catch (error) {
        this.#say(at, `has a pattern that is none: ${String(error)}`);
      }
    }
    if (schema['enum'] !== undefined && this.#list(schema['enum'], at).length === 0) this.#say(at, 'has an empty enum');
    for (const name of [schema['required'] ?? []].flat())
      if (typeof name !== 'string') this.#say(at, 'requires no name');
    for (const name of ['anyOf', 'oneOf', 'allOf', 'prefixItems']) {
      for (const [index, inner] of this.#list(schema[name] ?? [], at).entries())
        this.#schema(inner, `${at}/${name}/${index}`);
    }
    for (const name of ['items', 'additionalProperties', 'propertyNames', 'not']) {
      if (schema[name] !== undefined) this.#schema(schema[name], `${at}/${name}`);
    }
    for (const name of ['properties', '$defs']) {
      for (const [key, inner] of Object.entries(this.#fields(schema[name] ?? {}, at)))
        this.#schema(inner, `${at}/${name}/${key}`);
    }
  }

  #references(value: unknown, at: string): void {
    if (typeof value !== 'object' || value === null) return;
    for (const [name, inner] of Object.entries(value)) {
      if (name === '$ref' && typeof inner === 'string') {
        if (this.#target(inner) === undefined) this.#say(at, `${inner} leads nowhere`);
      } else this.#references(inner, `${at}/${name}`);
    }
  }

  #target(reference: string): unknown {
    let here: unknown = this.#document;
    for (const name of reference.replace(/^#\//, '').split('/')) {
      if (typeof here !== 'object' || here === null) return undefined;
      here = Object.entries(here).find(([key]) => key === name)?.[1];
    }
    return here;
  }
}
