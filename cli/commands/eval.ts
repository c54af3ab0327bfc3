import { evaluationStates, evaluations } from '@flynn/controller/hosts/api';
import { usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { formatAge, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

export function addEvaluationCommands(parent: Parent): void {
  const evaluation = addCommand(parent, {
    name: 'eval',
    summary: 'what schedulers were asked to do, and what waits for room',
    run: (context) => listEvaluations(context, {}),
  });

  addCommand<{ state?: string }>(parent, {
    under: evaluation,
    name: 'list',
    summary: 'evaluations, newest first: of one app with -a, else of all',
    options: { state: ['--state <state>', evaluationStates.join(', ')] },
    run: listEvaluations,
  });

  addCommand(parent, {
    under: evaluation,
    name: 'info',
    summary: 'one evaluation, with what it follows from and what follows from it',
    arguments: [['<id>', 'as "flynn eval list" shows it; its start is enough']],
    async run(context, _options, [id = '']) {
      const found = await (await context.client()).call(evaluations.get, { params: { evaluation: id } });
      context.show(found, () => {
        const facts: [string, string | undefined][] = [
          ['id', found.id],
          ['state', found.state],
          ['reason', found.reason],
          ['cause', found.cause],
          ['app', found.appName],
          ['workload', found.workloadId],
          ['priority', String(found.priority)],
          ['placed', found.placed === undefined ? undefined : String(found.placed)],
          ['waiting', found.waiting === undefined ? undefined : String(found.waiting)],
          ...Object.entries(found.obstacles ?? {}).map(([why, count]): [string, string] => [
            'obstacle',
            `${why} (${count} ${count === 1 ? 'host' : 'hosts'})`,
          ]),
          ['created', new Date(found.createdAt).toISOString()],
          ['not before', waitOf(found, Date.now())],
          ['follows from', found.previousId],
          ['followed by', found.nextId],
          ['waits as', found.blockedId],
        ];
        const shown = facts.filter(([, value]) => value !== undefined);
        const width = Math.max(...shown.map(([name]) => name.length));
        return shown.map(([name, value]) => `${name.padEnd(width)}  ${value ?? ''}\n`).join('');
      });
    },
  });
}

async function listEvaluations(context: Context, options: { state?: string }): Promise<void> {
  const state = evaluationStates.find((one) => one === options.state);
  if (options.state !== undefined && state === undefined) {
    throw usageError(`"${options.state}" is no state: one of ${evaluationStates.join(', ')}`);
  }
  const { app } = context.options;
  const query = { ...(app === undefined ? {} : { app }), ...(state === undefined ? {} : { state }) };
  const found = await (await context.client()).call(evaluations.list, { query });
  context.show(found, () =>
    formatTable(
      ['ID', 'STATE', 'CAUSE', 'APP', 'WORKLOAD', 'AGE', 'NOTE'],
      found.map((one) => [
        one.id,
        one.state,
        one.cause,
        one.appName,
        one.workloadId,
        formatAge(new Date(one.createdAt).toISOString(), Date.now()),
        noteOf(one, Date.now()),
      ]),
    ),
  );
}

/** One that waits for its time is not stuck. */
function noteOf(one: Waiting & { reason?: string | undefined }, now: number): string | undefined {
  const wait = waitOf(one, now);
  return wait === undefined ? one.reason : `not before ${wait}`;
}

type Waiting = { state: string; waitUntil?: number | undefined };

/** Until when it is not looked at, and how long that is from now. */
function waitOf({ state, waitUntil }: Waiting, now: number): string | undefined {
  if (state !== 'pending' || waitUntil === undefined || waitUntil <= now) return undefined;
  const at = new Date(waitUntil).toISOString();
  return `${at} (in ${formatAge(new Date(now).toISOString(), waitUntil)})`;
}
