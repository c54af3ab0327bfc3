import { hosts } from '@flynn/controller/hosts/api';
import type { HostView } from '@flynn/controller/hosts/api';
import { parseDurationMs, parseWhole, usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { formatAge, formatCount, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';
import { awaitEmpty, beginDrain, giveUpBlobs, noteNowhere } from './host-drain.ts';
import { addReplacementCommands } from './host-replacement.ts';

const hostArgument = ['<host>', 'as "flynn host list" shows it'] as const;
const gibibyte = 1024 ** 3;

export function addHostCommands(parent: Parent): void {
  const host = addCommand(parent, { name: 'host', summary: 'the machines of the cluster', run: listHosts });
  addCommand(parent, { under: host, name: 'list', summary: 'all hosts', run: listHosts });
  addCommand(parent, {
    under: host,
    name: 'show',
    summary: 'one host and its jobs',
    arguments: [hostArgument],
    run: showHost,
  });
  addTagCommands(parent, host);
  addCommand(parent, {
    under: host,
    name: 'cordon',
    summary: 'place nothing more there',
    arguments: [hostArgument],
    async run(context, _options, [name = '']) {
      const view = await (await context.client()).call(hosts.cordon, { params: { host: name } });
      context.show(view, () => `${view.id} takes no more jobs; "flynn host uncordon ${view.id}" opens it again`);
    },
  });
  for (const [name, summary] of [
    ['uncordon', 'let a cordoned or draining host take jobs again'],
    ['undrain', 'stop moving jobs away'],
  ] as const) {
    addCommand(parent, {
      under: host,
      name,
      summary,
      arguments: [hostArgument],
      async run(context, _options, [id = '']) {
        const view = await (await context.client()).call(hosts[name], { params: { host: id } });
        context.show(view, () => openNews(view));
      },
    });
  }
  addDrainCommand(parent, host);
  addReplacementCommands(parent, host);
  addCommand(parent, {
    under: host,
    name: 'rebalance',
    summary: 'spread services over the hosts again',
    async run(context) {
      const answer = await (await context.client()).call(hosts.rebalance, {});
      const what = formatCount(answer.workloads, 'service');
      context.show(answer, () => `looking at ${what}; "flynn host list" shows how jobs move`);
    },
  });
}

function openNews({ id, state }: HostView): string {
  if (state === 'away') return `${id} is away, and takes jobs again once it is back`;
  if (state !== 'cordoned') return `${id} takes jobs`;
  return `${id} keeps its jobs, and is cordoned: "flynn host uncordon ${id}" opens it, unless it closes itself, as with a full disk ("flynn doctor")`;
}

function addTagCommands(parent: Parent, host: ReturnType<typeof addCommand>): void {
  addCommand(parent, {
    under: host,
    name: 'tags',
    summary: "a host's tags, which constraints can ask for",
    arguments: [hostArgument],
    async run(context, _options, [id = '']) {
      showTags(context, await (await context.client()).call(hosts.get, { params: { host: id } }));
    },
  });
  addCommand(parent, {
    under: host,
    name: 'tag',
    summary: 'give a host tags, or change them',
    arguments: [hostArgument, ['<tags...>', 'NAME=VALUE …']],
    async run(context, _options, [id = '', ...pairs]) {
      const parsed = pairs.map((pair): [string, string] => {
        const at = pair.indexOf('=');
        if (at < 1) throw usageError(`"${pair}" sets nothing: write NAME=VALUE`);
        return [pair.slice(0, at), pair.slice(at + 1)];
      });
      const client = await context.client();
      const body = { tags: Object.fromEntries(parsed) };
      showTags(context, await client.call(hosts.tag, { params: { host: id }, body }));
    },
  });
  addCommand(parent, {
    under: host,
    name: 'untag',
    summary: 'take tags away from a host',
    arguments: [hostArgument, ['<names...>', 'NAME …']],
    async run(context, _options, [id = '', ...names]) {
      const client = await context.client();
      const body = { tags: Object.fromEntries(names.map((name) => [name, null])) };
      showTags(context, await client.call(hosts.tag, { params: { host: id }, body }));
    },
  });
}

function showTags(context: Context, view: HostView): void {
  context.show(view.tags, () =>
    Object.entries(view.tags)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(''),
  );
}

function addDrainCommand(parent: Parent, host: ReturnType<typeof addCommand>): void {
  addCommand<{ deadline?: string; maxParallel?: string; wait?: boolean; giveUpBlobs?: boolean }>(parent, {
    under: host,
    name: 'drain',
    summary: 'move its jobs elsewhere, replacements first',
    arguments: [hostArgument],
    options: {
      deadline: ['--deadline <time>', 'what is left by then is stopped, as in 10m'],
      maxParallel: ['--max-parallel <n>', 'jobs of a workload that move at a time, else 1'],
      wait: ['--wait', 'until the host is empty'],
      giveUpBlobs,
    },
    async run(context, { deadline, maxParallel, wait, giveUpBlobs: givesUp = false }, [id = '']) {
      const client = await context.client();
      const body = {
        giveUpBlobs: givesUp,
        ...(deadline === undefined ? {} : { deadlineMs: parseDurationMs(deadline) }),
        ...(maxParallel === undefined
          ? {}
          : { maxParallel: parseWhole(maxParallel, { what: 'how many move at a time', min: 1, max: 1_000 }) }),
      };
      const view = await beginDrain(context, client, id, body);
      await noteNowhere(context, client, view);
      if (wait !== true) {
        const many = formatCount(view.jobs, 'job');
        context.show(view, () => `${view.id} is draining: ${many} to move; "flynn host show ${view.id}" follows it`);
        return 0;
      }
      return await awaitEmpty(context, client, view);
    },
  });
}

async function listHosts(context: Context): Promise<void> {
  const found = await (await context.client()).call(hosts.list, {});
  context.show(found, () =>
    formatTable(
      ['ID', 'STATE', 'ADDRESS', 'JOBS', 'MEMORY', 'CPU', 'UP', 'TAGS'],
      found.map((one) => [
        one.id,
        one.state,
        one.address,
        String(one.jobs),
        use(one.claimed.memoryBytes, one.capacity?.memoryBytes, gibibyte, 'GiB'),
        use(one.claimed.cpuMillis, one.capacity?.cpuMillis, 1_000, 'cores'),
        formatAge(one.startedAt, Date.now()),
        Object.entries(one.tags)
          .map(([name, value]) => `${name}=${value}`)
          .join(','),
      ]),
    ),
  );
}

/** Without spaces, so that it is one column: `1.5/8.0GiB`. */
function use(claimed: number, capacity: number | undefined, unit: number, name: string): string {
  const whole = capacity === undefined ? '-' : (capacity / unit).toFixed(1);
  return `${(claimed / unit).toFixed(1)}/${whole}${name}`;
}

async function showHost(context: Context, _options: object, [id = '']: string[]): Promise<void> {
  const detail = await (await context.client()).call(hosts.get, { params: { host: id } });
  context.show(detail, () => {
    const { drain } = detail;
    const until = drain?.deadlineAt === undefined ? '' : `, until ${drain.deadlineAt}`;
    const facts: [string, string | undefined][] = [
      ['id', detail.id],
      ['state', drain === undefined ? detail.state : `${detail.state} since ${drain.startedAt}${until}`],
      ...detail.waits.map((text): [string, string] => ['waits', text]),
      ['address', detail.address],
      ['up since', detail.startedAt],
      ['memory', use(detail.claimed.memoryBytes, detail.capacity?.memoryBytes, gibibyte, 'GiB')],
      ['cpu', use(detail.claimed.cpuMillis, detail.capacity?.cpuMillis, 1_000, 'cores')],
      ...detail.volumes.map(({ appName, workloadId, type, volumes }): [string, string] => [
        'alone has',
        `${volumes.join(', ')} of ${appName === undefined ? `workload ${workloadId}` : `${appName} (${type})`}`,
      ]),
      ...Object.entries(detail.attributes).map(([name, value]): [string, string] => [`attribute ${name}`, value]),
    ];
    const width = Math.max(...facts.map(([name]) => name.length));
    const lines = facts.map(([name, value]) => `${name.padEnd(width)}  ${value ?? '-'}\n`).join('');
    const jobs = formatTable(
      ['ID', 'APP', 'TYPE', 'STATE', 'STARTED', 'RESTARTS'],
      detail.list.map((job) => [
        job.id,
        job.appName,
        job.type,
        job.state,
        formatAge(job.startedAt, Date.now()),
        String(job.restarts),
      ]),
    );
    return `${lines}\n${jobs}`;
  });
}
