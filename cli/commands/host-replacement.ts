/** `flynn host remove` and `flynn host replace`: a host goes for good, and another takes its place. */
import { hosts } from '@flynn/controller/hosts/api';
import type { HostDetail } from '@flynn/controller/hosts/api';
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { formatCount } from '../output.ts';
import { addCommand, type Parent } from './command.ts';
import { awaitEmpty, beginDrain, giveUpBlobs } from './host-drain.ts';

const gibibyte = 1024 ** 3;

type RemoveOptions = { yes?: boolean; giveUpVolumes?: boolean; giveUpBlobs?: boolean };

const giveUpVolumes = [
  '--give-up-volumes',
  'also what is on its disk and nowhere else: jobs begin with empty volumes',
] as const;

export function addReplacementCommands(parent: Parent, host: ReturnType<typeof addCommand>): void {
  addCommand<RemoveOptions>(parent, {
    under: host,
    name: 'remove',
    summary: 'forget a host that is away for good',
    arguments: [['<host>', 'as "flynn host list" shows it']],
    options: { yes: ['-y, --yes', 'without it nothing is done'], giveUpVolumes, giveUpBlobs },
    async run(context, options, [id = '']) {
      if (options.yes !== true) throw usageError(`this forgets ${id} and what its volumes held: repeat it with --yes`);
      await remove(await context.client(), id, options);
      context.show({ removed: id }, () => `${id} is no longer of the cluster`);
    },
  });
  addCommand<RemoveOptions>(parent, {
    under: host,
    name: 'replace',
    summary:
      'let one host take the place of another: its tags and its work; the old one is emptied, or forgotten if it is away',
    arguments: [
      ['<old>', 'the host that goes, up or away'],
      ['<new>', 'the host that comes; it has joined already'],
    ],
    options: { yes: ['-y, --yes', 'without it nothing is done'], giveUpVolumes, giveUpBlobs },
    examples: ['flynn host replace h2 h4 --yes'],
    run: (context, options, [old = '', next = '']) => replace(context, options, old, next),
  });
}

async function remove(client: HttpClient, host: string, options: RemoveOptions): Promise<void> {
  const query = {
    ...(options.giveUpVolumes === true ? { giveUpVolumes: true } : {}),
    ...(options.giveUpBlobs === true ? { giveUpBlobs: true } : {}),
  };
  await client.call(hosts.remove, { params: { host }, query });
}

/** Everything is looked at before anything is changed. Repeated, it goes on where it was. */
async function replace(context: Context, options: RemoveOptions, oldId: string, newId: string): Promise<number> {
  if (oldId === newId)
    throw usageError(`${oldId} cannot take its own place: name the host that goes, then the one that comes`);
  const client = await context.client();
  const [old, next] = await Promise.all([oldId, newId].map((host) => client.call(hosts.get, { params: { host } })));
  if (old === undefined || next === undefined) throw new FlynnError('internal', 'a host was not told');
  checkReplacement(old, next, options);
  if (options.yes !== true) {
    throw usageError(`this ${old.state === 'away' ? 'forgets' : 'empties'} ${oldId}: repeat it with --yes`);
  }
  const tags = Object.entries(old.tags).filter(([name, value]) => next.tags[name] !== value);
  if (tags.length > 0) {
    await client.call(hosts.tag, { params: { host: newId }, body: { tags: Object.fromEntries(tags) } });
    if (!context.options.json) context.print(`${newId} has ${formatCount(tags.length, 'tag')} of ${oldId}\n`);
  }
  if (old.state === 'away') {
    await remove(client, oldId, options);
    context.show(
      { replaced: oldId, by: newId },
      () => `${oldId} is no longer of the cluster; ${newId} is in its place`,
    );
    return 0;
  }
  const draining = await beginDrain(context, client, oldId, { giveUpBlobs: options.giveUpBlobs === true });
  const code = await awaitEmpty(context, client, draining);
  if (code === 0 && !context.options.json) {
    context.print(`now on ${oldId}: ${eitherCommand('down')}, and it is no longer of the cluster\n`);
  }
  return code;
}

function checkReplacement(old: HostDetail, next: HostDetail, { giveUpVolumes: givesUp = false }: RemoveOptions): void {
  if (next.state !== 'up') {
    const remedy =
      next.state === 'away'
        ? `bring it back, or let another host join: ${eitherCommand('token')}`
        : `open it first: flynn host uncordon ${next.id}`;
    throw new FlynnError('conflict', `${next.id} is ${next.state} and takes no jobs: ${remedy}`);
  }
  const isAway = old.state === 'away';
  if (old.volumes.length > 0 && !(isAway && givesUp)) {
    const names = old.volumes.map(
      ({ appName, workloadId, type, volumes }) =>
        `${volumes.join(', ')} of ${appName === undefined ? `workload ${workloadId}` : `${appName} (${type})`}`,
    );
    const remedy = isAway
      ? `bring ${old.id} back, or give them up: --give-up-volumes`
      : `they do not move by themselves: back them up, scale these to 0, replace the host, scale them up and restore`;
    throw new FlynnError('conflict', `${old.id} holds volumes that are nowhere else: ${names.join('; ')}\n  ${remedy}`);
  }
  const roomBytes = (next.capacity?.memoryBytes ?? 0) - next.claimed.memoryBytes;
  if (!isAway && roomBytes < old.claimed.memoryBytes) {
    const [has, needs] = [roomBytes, old.claimed.memoryBytes].map((bytes) => (bytes / gibibyte).toFixed(1));
    throw new FlynnError(
      'conflict',
      `${next.id} has ${has} GiB left and ${old.id} has ${needs} GiB set aside for its jobs\n  take a larger one, or spread the work over all hosts: flynn host drain ${old.id} --wait`,
    );
  }
}
