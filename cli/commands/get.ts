import { generic } from '@flynn/controller/generic/api';
import type { GenericObject, KindView } from '@flynn/controller/generic/api';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { isCalled, kindNamed, listKinds, paramsOf, referenceTo } from '../objects/kinds.ts';
import { headerOf, rowOf, wantedOf, yamlOf, yamlOfWanted } from '../objects/text.ts';
import { ObjectWatch } from '../objects/watch.ts';
import { formatTable } from '../output.ts';
import { pollUntil } from '../polling.ts';
import { addCommand, type Parent } from './command.ts';

const outputs = ['table', 'yaml', 'json'] as const;
type Output = (typeof outputs)[number];
type GetOptions = { output?: string; watch?: boolean; selector?: string; owner?: string };

export function addGetCommand(parent: Parent): void {
  addCommand<GetOptions>(parent, {
    name: 'get',
    onlyTells: true,
    summary: 'objects of a kind, or one; "flynn kinds" lists the kinds, "all" is all that files can have',
    arguments: [
      ['<kind>', 'like "apps", or "all"'],
      ['[name]', 'one object, by name or id'],
    ],
    options: {
      output: ['-o, --output <format>', `${outputs.join(', ')}; as yaml or json it can be applied again`],
      watch: ['-w, --watch', 'go on with changes, until Ctrl-C'],
      selector: ['-l, --selector <labels>', 'those with these labels: NAME=VALUE,NAME=VALUE'],
      owner: ['--owner <object>', 'those that belong to it: app/NAME'],
    },
    async run(context, options, [kindName = '', name]) {
      const output = outputOf(context, options.output);
      const kinds = await listKinds(context);
      if (kindName === 'all') {
        if (name !== undefined || options.watch) throw usageError('"all" is read at once: without a name and -w');
        return showAll(context, kinds, output);
      }
      const kind = kindNamed(kinds, kindName);
      const query = queryOf(context, options);
      if (options.watch) return watch(context, kind, { ...query, ...(name === undefined ? {} : { name }) }, output);
      const client = await context.client();
      const params = paramsOf(kind);
      if (name === undefined) return show(context, kind, await client.call(generic.list, { params, query }), output);
      const found = await client.call(generic.get, { params: { ...params, name } });
      if (output === 'json') return context.print(JSON.stringify(found, undefined, 2));
      if (output === 'yaml') return context.print(yamlOf(found));
      return context.print(tableOf(kind, [found]) + detailsOf(found));
    },
  });
}

/** `flynn delete KIND NAME`. Answers once it is gone. */
export async function deleteObject(
  context: Context,
  [kindName, name]: readonly [string, string | undefined],
  { isWaitedFor, deadlineMs }: { isWaitedFor: boolean; deadlineMs: number },
): Promise<void> {
  const kinds = await listKinds(context);
  if (name === undefined) throw unnamedObject(kinds, kindName);
  const kind = kindNamed(kinds, kindName);
  const client = await context.client();
  const params = { ...paramsOf(kind), name };
  const reference = referenceTo(kind, name);
  const { outcome, object } = await client.call(generic.remove, { params });
  const { uid } = object.metadata;
  let last = object;
  if (outcome === 'deleting' && isWaitedFor) {
    const isGone = async () => {
      const found = await client.call(generic.get, { params }).catch((error: unknown) => {
        if (hasCode(error, 'not_found')) return undefined;
        throw error;
      });
      last = found ?? last;
      return found === undefined || found.metadata.uid !== uid;
    };
    try {
      await context.progress(`deleting ${reference}`, () => pollUntil(isGone, { what: reference, deadlineMs }));
    } catch (error) {
      if (!hasCode(error, 'timeout')) throw error;
      throw new FlynnError(
        'timeout',
        `${reference} is not gone after ${deadlineMs / 1_000} s\n${reasonsOf(last)}  it goes on by itself: "flynn get ${kindName} ${name}" shows how far it is`,
      );
    }
  }
  const isGone = outcome === 'deleted' || isWaitedFor;
  context.show({ object: reference, outcome: isGone ? 'deleted' : outcome }, () =>
    isGone ? `${reference} deleted` : `${reference} is being deleted\n${reasonsOf(last)}`,
  );
}

/** Of one word that is no kind it is likely that an app is meant. */
function unnamedObject(kinds: readonly KindView[], word: string): FlynnError {
  return kinds.some((kind) => isCalled(kind, word))
    ? usageError(`which ${word}? write flynn delete ${word} NAME`)
    : usageError(`"${word}" is no kind of object; if it is an app, "flynn delete app ${word}" deletes it`);
}

function reasonsOf({ metadata: { finalizers, waitingFor } }: GenericObject): string {
  return finalizers.map((name) => `  ${name} waits for: ${waitingFor[name] ?? 'it has not said what'}\n`).join('');
}

function outputOf(context: Context, wanted: string | undefined): Output {
  const output = wanted ?? (context.options.json ? 'json' : 'table');
  const found = outputs.find((one) => one === output);
  if (found === undefined) throw usageError(`there is no output "${output}": choose from ${outputs.join(', ')}`);
  return found;
}

function queryOf(context: Context, options: GetOptions): { labels?: string; owner?: string } {
  const owner = options.owner ?? (context.options.app === undefined ? undefined : `app/${context.options.app}`);
  return {
    ...(options.selector === undefined ? {} : { labels: options.selector }),
    ...(owner === undefined ? {} : { owner }),
  };
}

function show(context: Context, kind: KindView, found: readonly GenericObject[], output: Output): void {
  if (output === 'json') context.print(JSON.stringify(found, undefined, 2));
  else if (output === 'yaml') context.print(found.map(yamlOf).join('---\n'));
  else context.print(tableOf(kind, found));
}

function tableOf(kind: KindView, found: readonly GenericObject[]): string {
  const now = Date.now();
  return formatTable(
    headerOf(kind),
    found.map((object) => rowOf(kind, object, now)),
  );
}

function detailsOf(object: GenericObject): string {
  const { conditions } = object;
  const table = formatTable(
    ['CONDITION', 'STATUS', 'REASON', 'MESSAGE'],
    conditions.map(({ type, status, reason, message }) => [type, status, reason, message]),
  );
  const told = conditions.length === 0 ? '' : `\n${table}`;
  return object.metadata.deletingSince === undefined ? told : `${told}\n${reasonsOf(object)}`;
}

/** What a file of the whole cluster has: not what is part of something else, nor what the platform brings. */
async function showAll(context: Context, kinds: readonly KindView[], output: Output): Promise<void> {
  const client = await context.client();
  const exported = kinds.filter(({ isExported }) => isExported);
  const lists = await Promise.all(
    exported.map(async (kind) => ({
      kind,
      found: await client.call(generic.list, { params: paramsOf(kind), query: {} }),
    })),
  );
  const own = lists.map(({ kind, found }) => ({
    kind,
    found: found.filter(({ status }) => status['isSystem'] !== true),
  }));
  const objects = own.flatMap(({ found }) => found);
  if (output === 'json') return context.print(JSON.stringify(objects.map(wantedOf), undefined, 2));
  if (output === 'yaml') return context.print(objects.map(yamlOfWanted).join('---\n'));
  const now = Date.now();
  return context.print(
    formatTable(
      ['OBJECT', 'STATE', 'AGE'],
      own.flatMap(({ kind, found }) =>
        found.map((object) => {
          const [, ...rest] = rowOf({ ...kind, columns: {} }, object, now);
          return [referenceTo(kind, object.name), ...rest];
        }),
      ),
    ),
  );
}

async function watch(
  context: Context,
  kind: KindView,
  query: { labels?: string; owner?: string; name?: string },
  output: Output,
): Promise<void> {
  const ending = new AbortController();
  const offSignal = context.io.onSignal('SIGINT', () => ending.abort());
  const client = await context.client();
  const follower = new ObjectWatch((options) =>
    client.events(generic.watch, { params: paramsOf(kind), query }, options),
  );
  let widths: number[] = [];
  const line = (cells: readonly string[]) =>
    `${cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd()}\n`;
  try {
    for await (const { event, objects } of follower.changes(ending.signal)) {
      const now = Date.now();
      if (output === 'json') {
        for (const object of objects) context.print(JSON.stringify({ event, object }));
        continue;
      }
      if (output === 'yaml') {
        for (const object of objects) context.print(`---\n# ${event}\n${yamlOf(object)}`);
        continue;
      }
      const rows = objects.map((object): string[] => Array.of<string>(event).concat(rowOf(kind, object, now)));
      if (widths.length === 0) {
        const header = ['EVENT', ...headerOf(kind)];
        widths = header.map((_, column) => Math.max(7, ...[header, ...rows].map((row) => row[column]?.length ?? 0)));
        context.print(line(header));
      }
      for (const row of rows) context.print(line(row));
    }
  } catch (error) {
    if (!ending.signal.aborted) throw error;
  } finally {
    offSignal();
  }
}
