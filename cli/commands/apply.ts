import { generic } from '@flynn/controller/generic/api';
import type { AppliedView, KindView } from '@flynn/controller/generic/api';
import { FlynnError } from '@flynn/kit/errors';
import type { ErrorCode } from '@flynn/kit/errors';
import { usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { awaitDeployment } from '../deployments/deploy.ts';
import { type Fault, type ObjectDocument, readDocuments } from '../objects/documents.ts';
import { kindNamed, listKinds, paramsOf, referenceTo } from '../objects/kinds.ts';
import { type Colour, formatCount, formatSeconds, paint } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

const file = ['-f, --file <path>', 'a file, a folder of files, or - for standard input', [] as string[]] as const;

/** Errors that say nothing of the document that was asked about. */
const clusterCodes: ReadonlySet<ErrorCode> = new Set([
  'unavailable',
  'timeout',
  'unauthenticated',
  'internal',
  'exhausted',
]);

type Planned = { kind: KindView; document: ObjectDocument; plan: AppliedView; reference: string };

export function addApplyCommands(parent: Parent): void {
  addCommand<{ file: string[]; dryRun?: boolean; wait: boolean }>(parent, {
    name: 'apply',
    summary: 'make it as files say: what is missing is created, what differs is changed, the rest is left alone',
    options: {
      file,
      dryRun: ['--dry-run', 'only say what would be done'],
      wait: ['-n, --no-wait', 'do not wait for deployments'],
    },
    async run(context, options) {
      const planned = await plan(context, options.file);
      if (options.dryRun) {
        show(context, planned);
        return;
      }
      await write(context, planned, options.wait);
    },
  });

  addCommand<{ file: string[] }>(parent, {
    name: 'diff',
    summary: 'what "apply" would change; exit code 1 when there is something',
    options: { file },
    async run(context, options) {
      const planned = await plan(context, options.file);
      const differing = planned.filter(({ plan: { outcome } }) => outcome !== 'unchanged');
      context.show(
        differing.map(({ reference, plan: { outcome, changes } }) => ({ object: reference, outcome, changes })),
        () => differing.map((one) => differenceText(context, one)).join(''),
      );
      return differing.length === 0 ? 0 : 1;
    },
  });
}

/** Asks for every document what it would do. Throws with everything that is wrong: then nothing has been written. */
async function plan(context: Context, files: readonly string[]): Promise<Planned[]> {
  if (files.length === 0)
    throw usageError('nothing to read: name a file with -f FILE, a folder, or -f - for standard input');
  const { documents, faults } = await readDocuments(context.io, files);
  if (documents.length + faults.length === 0) throw usageError(`${files.join(', ')}: there are no objects in it`);
  const kinds = await listKinds(context);
  const client = await context.client();
  const planned: Planned[] = [];
  const places = new Map<string, string>();
  for (const document of documents) {
    const { object, whereIs } = document;
    try {
      const kind = kindNamed(kinds, kindTextOf(object));
      // What comes later in the same files may belong to what comes first.
      const query = { dryRun: true, assume: planned.map(({ reference }) => reference) };
      const answer = await client.call(generic.apply, { params: paramsOf(kind), body: bodyOf(document), query });
      const reference = referenceTo(kind, answer.name);
      const first = places.get(reference);
      if (first !== undefined) faults.push({ where: whereIs('name'), message: `${reference} is also at ${first}` });
      places.set(reference, whereIs('name'));
      planned.push({ kind, document, plan: answer, reference });
    } catch (error) {
      faults.push(...faultsOf(error, document));
    }
  }
  if (faults.length > 0) throw refused(faults);
  return planned;
}

function kindTextOf({ kind, group, version }: ObjectDocument['object']): string {
  return group === undefined || kind.includes('/') ? kind : `${group}/${version ?? 'v1'}/${kind}`;
}

function bodyOf({ object: { name, owner, labels, spec } }: ObjectDocument) {
  return {
    ...(name === undefined ? {} : { name }),
    ...(owner === undefined ? {} : { owner }),
    ...(labels === undefined ? {} : { labels }),
    spec,
  };
}

/** What is wrong with a document; what is wrong with the cluster is thrown. */
function faultsOf(error: unknown, { whereIs }: ObjectDocument): Fault[] {
  if (!(error instanceof FlynnError) || clusterCodes.has(error.code)) throw error;
  const { message, detail } = error;
  const issues: unknown = detail['issues'];
  if (!Array.isArray(issues)) {
    return [{ where: whereIs(message.startsWith('there is no kind') ? 'kind' : ''), message }];
  }
  return issues.map((issue: { path: string; message: string }) => ({
    where: whereIs(issue.path),
    message: `${issue.path}: ${issue.message}`,
  }));
}

function refused(faults: readonly Fault[]): FlynnError {
  const lines = faults.map(({ where, message }) => `\n  ${where}: ${message}`);
  return new FlynnError(
    'invalid',
    `nothing was changed, because of ${formatCount(faults.length, 'mistake')}:${lines.join('')}`,
  );
}

async function write(context: Context, planned: readonly Planned[], isWaiting: boolean): Promise<void> {
  const client = await context.client();
  const written: { object: string; outcome: string }[] = [];
  const changing = planned.filter((one) => one.plan.outcome !== 'unchanged');
  const query = { assume: changing.map(({ reference }) => reference) };
  for (const { kind, document, reference } of planned) {
    let answer: AppliedView;
    try {
      answer = await client.call(generic.apply, { params: paramsOf(kind), body: bodyOf(document), query });
      written.push({ object: reference, outcome: answer.outcome });
      tell(context, reference, answer);
      const { deploymentId } = answer;
      if (deploymentId === undefined || !isWaiting) continue;
      const { tookMs, state } = await awaitDeployment(
        context,
        { app: reference.slice(reference.indexOf('/') + 1), what: reference },
        () => deploymentId,
      );
      if (context.options.json) continue;
      context.print(
        `${reference} ${state === 'complete' ? `deployed in ${formatSeconds(tookMs)}` : `has a deployment that is ${state}`}`,
      );
    } catch (error) {
      if (!(error instanceof FlynnError)) throw error;
      const where = document.whereIs('');
      const rest = planned.length - written.length;
      const left = rest === 0 ? '' : `; ${formatCount(rest, 'object')} of the files not written`;
      throw new FlynnError(
        error.code,
        `${where}: ${error.message}\n  mend it and apply again: what is done stays${left}`,
        {
          cause: error,
          detail: error.detail,
        },
      );
    }
  }
  if (context.options.json) context.show(written, () => '');
}

const colours: Readonly<Record<AppliedView['outcome'], Colour>> = {
  created: 'green',
  configured: 'green',
  unchanged: 'dim',
};

function tell(context: Context, reference: string, { outcome, notes }: AppliedView): void {
  if (context.options.json) return;
  context.print(`${reference} ${paint(context.io.stdout, colours[outcome], outcome)}`);
  for (const text of notes) context.print(`  ${text}`);
}

function show(context: Context, planned: readonly Planned[]): void {
  const shown = planned.map(({ reference, plan: { outcome } }) => ({ object: reference, outcome }));
  context.show(shown, () =>
    shown
      .map(({ object, outcome }) => `${object} ${outcome === 'unchanged' ? outcome : `would be ${outcome}`}\n`)
      .join(''),
  );
}

function differenceText(context: Context, { reference, plan: { outcome, changes } }: Planned): string {
  const { stdout } = context.io;
  const lines = changes.flatMap(({ path, before, after }) => [
    ...(before === undefined ? [] : [paint(stdout, 'red', `  - ${path}: ${JSON.stringify(before)}`)]),
    ...(after === undefined ? [] : [paint(stdout, 'green', `  + ${path}: ${JSON.stringify(after)}`)]),
  ]);
  return [`${reference} would be ${outcome}`, ...lines].map((line) => `${line}\n`).join('');
}
