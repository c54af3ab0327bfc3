/** Files of objects: YAML with several documents, or JSON. Every part knows its line, so that what is wrong is found. */
import { readdir, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { nearestOf } from '@flynn/kit/config';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { LineCounter, type Document, isMap, isPair, isScalar, isSeq, parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { readNamed } from '../input-file.ts';
import type { Io } from '../io.ts';

const objectSchema = z.object({
  kind: z.string(),
  group: z.string().optional(),
  version: z.string().optional(),
  name: z.string().optional(),
  owner: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  spec: z.record(z.string(), z.unknown()).default({}),
});
export type ObjectFile = z.output<typeof objectSchema>;

/** What "flynn get -o yaml" tells of what is; a file may have it, and it is not looked at. */
const observed = ['status', 'conditions', 'outlook', 'metadata'];
const known = [...Object.keys(objectSchema.shape), ...observed];

/** What is wrong, and where. */
export type Fault = { where: string; message: string };

export type ObjectDocument = {
  object: ObjectFile;
  /** `app.yaml:3`: of the field, or of the nearest thing around it that is there. */
  whereIs: (path: string) => string;
};

export type ReadDocuments = { documents: ObjectDocument[]; faults: Fault[] };

/** Files, folders (their .yaml, .yml and .json files, by name) and `-`. Faults are collected, unreadable files thrown. */
export async function readDocuments(io: Io, paths: readonly string[]): Promise<ReadDocuments> {
  const files = (await Promise.all(paths.map((path) => filesOf(io, path)))).flat();
  const all = await Promise.all(
    files.map(async (file) => parseDocuments(await readNamed(io, file), file === '-' ? 'standard input' : file)),
  );
  return { documents: all.flatMap((one) => one.documents), faults: all.flatMap((one) => one.faults) };
}

async function filesOf(io: Io, path: string): Promise<string[]> {
  if (path === '-') return [path];
  const isFolder = await stat(resolve(io.cwd, path)).then(
    (found) => found.isDirectory(),
    (error: unknown) => {
      throw new FlynnError('not_found', `cannot read ${path}: ${messageOf(error)}`, { cause: error });
    },
  );
  if (!isFolder) return [path];
  const names = (await readdir(resolve(io.cwd, path), { recursive: true })).filter((name) =>
    /\.(?:ya?ml|json)$/.test(name),
  );
  if (names.length > 0) return names.toSorted().map((name) => join(path, name));
  throw new FlynnError('not_found', `${path} holds no .yaml, .yml or .json files`);
}

export function parseDocuments(text: string, file: string): ReadDocuments {
  const lines = new LineCounter();
  const parsed = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false });
  const at = (offset: number) => `${file}:${lines.linePos(offset).line}`;
  const result: ReadDocuments = { documents: [], faults: [] };
  if (!Array.isArray(parsed)) return result;
  for (const document of parsed) {
    if (document.errors.length > 0) {
      result.faults.push(...document.errors.map(({ pos, message }) => ({ where: at(pos[0]), message })));
      continue;
    }
    // What is between two --- and empty is no object.
    if (document.contents === null || (isScalar(document.contents) && document.contents.value === null)) continue;
    const whereIs = (path: string) => at(offsetOf(document, path));
    const faults = faultsOf(document);
    result.faults.push(...faults.map(({ path, message }) => ({ where: whereIs(path), message })));
    if (faults.length === 0) result.documents.push({ object: objectSchema.parse(document.toJS()), whereIs });
  }
  return result;
}

function faultsOf(document: Document): { path: string; message: string }[] {
  if (!isMap(document.contents)) return [{ path: '', message: 'an object is written as fields: kind, name, spec' }];
  const value: unknown = document.toJS();
  const unknown = Object.keys(Object(value)).filter((name) => !known.includes(name));
  const { error } = objectSchema.safeParse(value);
  return [
    ...unknown.map((name) => {
      const nearest = nearestOf(name, known);
      const hint = nearest === undefined ? '' : `: did you mean ${nearest}?`;
      return { path: name, message: `${name}: there is no such field${hint}` };
    }),
    ...(error?.issues ?? []).map((issue) => {
      const path = issue.path.join('.');
      return {
        path,
        message: path === 'kind' ? 'kind: say what it is, like "kind: App"' : `${path}: ${issue.message}`,
      };
    }),
  ];
}

/** Where the field is, or as much of the way to it as there is. */
function offsetOf(document: Document, path: string): number {
  let node: unknown = document.contents;
  let offset = document.contents?.range?.[0] ?? 0;
  let rest = path;
  while (rest !== '') {
    const step = stepInto(node, rest);
    if (step === undefined) return offset;
    ({ node, offset, rest } = step);
  }
  return offset;
}

/** Names may hold dots themselves: the longest that fits is taken. */
function stepInto(node: unknown, path: string): { node: unknown; offset: number; rest: string } | undefined {
  const segments = path.split('.');
  for (let length = segments.length; length > 0; length -= 1) {
    const name = segments.slice(0, length).join('.');
    const rest = segments.slice(length).join('.');
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === name);
      if (isPair(pair) && isScalar(pair.key)) {
        return { node: pair.value, offset: pair.key.range?.[0] ?? 0, rest };
      }
    } else if (isSeq(node) && length === 1) {
      const item: unknown = node.items[Number(name)];
      const range: unknown = typeof item === 'object' && item !== null ? Reflect.get(item, 'range') : undefined;
      if (Array.isArray(range)) return { node: item, offset: Number(range[0]), rest };
    }
  }
  return undefined;
}
