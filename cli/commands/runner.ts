import { runners } from '@flynn/controller/operations/api-runners';
import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { formatAge, formatTable } from '../output.ts';
import { labelsText, parseLabels } from '../runner-env.ts';
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
  addRunnerAdd(parent, runner);

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

function addRunnerAdd(parent: Parent, runner: Command): void {
  addCommand<{ labels?: string; byIdOnly?: boolean }>(parent, {
    under: runner,
    name: 'add',
    summary: 'let in a runner outside of the cluster; writes the variables that flynn-runner is started with there',
    arguments: [['<id>', 'a name for it, like office']],
    options: {
      labels: ['-l, --labels <labels>', 'what operations may ask for, as registry=team,zone=a'],
      byIdOnly: ['--by-id-only', 'it takes only operations that name it'],
    },
    examples: ['flynn runner add office > office.env     # then, on its machine: flynn-runner office.env'],
    async run(context, { labels, byIdOnly: isByIdOnly = false }, [id = '']) {
      const client = await context.client();
      const { controllerUrl, ca } = await context.cluster();
      const body = { labels: parseLabels(labels), isByIdOnly };
      const { token, ...added } = await client.call(runners.add, { params: { runner: id }, body });
      const env = {
        FLYNN_CONTROLLER_URL: controllerUrl,
        ...(ca === undefined ? {} : { FLYNN_CONTROLLER_CA: Buffer.from(ca).toString('base64') }),
        FLYNN_RUNNER_ID: id,
        FLYNN_RUNNER_TOKEN: token,
        ...(labels === undefined ? {} : { FLYNN_RUNNER_LABELS: labelsText(body.labels) }),
        ...(isByIdOnly ? { FLYNN_RUNNER_BY_ID_ONLY: 'yes' } : {}),
      };
      context.show({ ...added, env }, () =>
        Object.entries(env)
          .map(([name, value]) => `${name}=${value}\n`)
          .join(''),
      );
      context.tell(`${id} gets work as soon as it comes; its token is told this once, and is for its machine alone`);
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
