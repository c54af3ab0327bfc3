import { runners } from '@flynn/controller/operations/api-runners';
import type { Context } from '../context.ts';
import { formatAge, formatTable } from '../output.ts';
import { labelsText } from '../runner-env.ts';
import { addCommand, type Parent } from './command.ts';
import { addRunnerEnvCommands } from './runner-env.ts';

const runnerArgument = ['<id>', 'as "flynn runner list" shows it'] as const;

export function addRunnerCommands(parent: Parent): void {
  const runner = addCommand(parent, {
    name: 'runner',
    summary: 'runners, which carry operations out: who they are and whether they get work',
    lists: true,
    run: listRunners,
  });
  addRunnerEnvCommands(parent, runner);

  addCommand(parent, {
    under: runner,
    name: 'info',
    summary: 'one runner, with what it runs',
    arguments: [runnerArgument],
    async run(context, _options, [id = '']) {
      const found = await (await context.client()).call(runners.get, { params: { runner: id } });
      context.show(found, () => {
        const facts: [string, string][] = [
          ['id', found.id],
          ['state', found.state],
          ['of the platform', found.isPlatform ? 'yes' : 'no'],
          ['version', found.version],
          ['labels', labelsText(found.labels) || '-'],
          ['takes', found.isByIdOnly ? 'only what names it' : 'what any may have, and what names it or its labels'],
          ['at a time', String(found.slots)],
          ['runs', found.operations.join(', ') || '-'],
          ['registered', found.createdAt],
          ['heard of', found.seenAt],
        ];
        const width = Math.max(...facts.map(([name]) => name.length));
        return facts.map(([name, value]) => `${name.padEnd(width)}  ${value}\n`).join('');
      });
    },
  });

  addCommand(parent, {
    under: runner,
    name: 'adopt',
    summary: 'let a runner have work',
    arguments: [runnerArgument],
    async run(context, _options, [id = '']) {
      const found = await (await context.client()).call(runners.adopt, { params: { runner: id } });
      context.show(found, () => `${id} gets work from now on`);
    },
  });

  addCommand(parent, {
    under: runner,
    name: 'reject',
    summary: 'give a runner no more work; what it runs it may end',
    arguments: [runnerArgument],
    async run(context, _options, [id = '']) {
      const found = await (await context.client()).call(runners.reject, { params: { runner: id } });
      const rest = found.operations.length === 0 ? '' : `; it may end ${found.operations.join(', ')}`;
      context.show(found, () => `${id} gets no more work${rest}`);
    },
  });

  addCommand(parent, {
    under: runner,
    name: 'forget',
    summary: 'forget a runner: it may register anew, with another token too',
    arguments: [runnerArgument],
    async run(context, _options, [id = '']) {
      await (await context.client()).call(runners.forget, { params: { runner: id } });
      context.show({ id }, () => `${id} is forgotten`);
    },
  });
}

async function listRunners(context: Context): Promise<void> {
  const found = await (await context.client()).call(runners.list, {});
  const now = Date.now();
  context.show(found, () =>
    formatTable(
      ['ID', 'STATE', 'RUNS', 'SLOTS', 'LABELS', 'VERSION', 'SEEN'],
      found.map((one) => [
        one.id,
        one.state,
        String(one.operations.length),
        String(one.slots),
        labelsText(one.labels) || '-',
        one.version,
        formatAge(one.seenAt, now),
      ]),
    ),
  );
}
