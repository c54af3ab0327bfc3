import type { KindView } from '@flynn/controller/generic/api';
import { FlynnError } from '@flynn/kit/errors';
import { fullNameOf, kindNamed, listKinds } from '../objects/kinds.ts';
import { formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

export function addKindsCommand(parent: Parent): void {
  addCommand(parent, {
    name: 'kinds',
    summary: 'the kinds of objects that get, apply and delete know; of one: what its file may say',
    arguments: [['[kind]', 'like "app"']],
    async run(context, _options, [wanted]) {
      const kinds = await listKinds(context);
      if (wanted !== undefined) {
        const kind = kindNamed(kinds, wanted);
        context.show(kind, () => describe(kind));
        return;
      }
      context.show(kinds, () =>
        formatTable(
          ['KIND', 'NAMES', 'WRITABLE', 'SUMMARY'],
          kinds.map((kind) => [kind.kind, kind.names.join(','), kind.isWritable ? 'yes' : 'no', kind.summary]),
        ),
      );
    },
  });
}

function describe(kind: KindView): string {
  if (kind.spec === undefined) {
    throw new FlynnError('invalid', `a ${kind.names[0]} is not written in files: ${kind.summary}`);
  }
  const fields = fieldsOf(kind.spec, 'spec');
  return `${fullNameOf(kind)}: ${kind.summary}\n\n${formatTable(['FIELD', 'TYPE', 'MUST'], fields)}`;
}

/** Rows of a JSON Schema: path, type, whether it has to be there. */
function fieldsOf(schema: unknown, path: string): [string, string, string][] {
  const { properties, required, additionalProperties, items } = Object(schema);
  const must: unknown = required;
  const own = Object.entries<unknown>(Object(properties)).flatMap(([name, field]): [string, string, string][] => {
    const at = `${path}.${name}`;
    const isRequired = Array.isArray(must) && must.includes(name);
    const row: [string, string, string] = [at, typeOf(field), isRequired ? 'yes' : 'no'];
    return [row].concat(fieldsOf(field, at));
  });
  const named = typeof additionalProperties === 'object' ? fieldsOf(additionalProperties, `${path}.NAME`) : [];
  return [...own, ...named, ...(typeof items === 'object' ? fieldsOf(items, `${path}.N`) : [])];
}

function typeOf(schema: unknown): string {
  const { type, enum: values, items, additionalProperties, anyOf } = Object(schema);
  if (Array.isArray(values)) return values.join('|');
  if (Array.isArray(anyOf)) return anyOf.map(typeOf).join('|');
  if (type === 'array') return `list of ${typeOf(items)}`;
  if (type === 'object' && typeof additionalProperties === 'object') return `NAME: ${typeOf(additionalProperties)}`;
  return typeof type === 'string' ? type : 'any';
}
