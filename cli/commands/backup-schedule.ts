import type { Command } from 'commander';
import { backups } from '@flynn/controller/backup/api';
import type { Backup, BackupScheduleView } from '@flynn/controller/backup/model';
import { usageError } from '../arguments.ts';
import { type PlaceOptions, placeOf } from '../backup-place.ts';
import { formatCount, formatSize, formatTable } from '../output.ts';
import { passphraseOf, passphraseOption } from '../passphrase.ts';
import { pollUntil } from '../polling.ts';
import { addCommand, type Parent } from './command.ts';

/** A first look, and an end, of one that is large. */
const runMs = 12 * 60 * 60_000;

type ScheduleOptions = PlaceOptions & { keep?: string; timezone?: string; passphraseFile?: string };

/** Under `flynn cluster backup`. */
export function addScheduleCommands(parent: Parent, backup: Command): void {
  addCommand<ScheduleOptions>(parent, {
    under: backup,
    name: 'schedule',
    summary: 'have the cluster back itself up; what was said before is replaced',
    arguments: [['<schedule>', 'as a crontab has it: "0 3 * * *"']],
    options: {
      to: ['--to <place>', 'dir:/PATH, a directory that is there on a host, or s3://BUCKET/PREFIX'],
      host: ['--host <host>', 'the host of the directory; may be left out where there is one'],
      endpoint: ['--endpoint <url>', 'the S3 service, if it is not that of AWS (else: $AWS_ENDPOINT_URL)'],
      region: ['--region <region>', 'of the bucket (else: $AWS_REGION, or us-east-1)'],
      keep: ['--keep <count>', 'so many of the newest, older ones are removed (default: 14)'],
      timezone: ['--timezone <zone>', 'as Europe/Berlin (default: UTC)'],
      passphraseFile: passphraseOption,
    },
    examples: [
      'flynn cluster backup schedule "0 3 * * *" --to dir:/mnt/backups --host h1 --passphrase-file secret',
      'flynn cluster backup schedule "0 3 * * *" --to s3://backups/flynn --region eu-central-1 --passphrase-file secret',
    ],
    async run(context, { keep, timezone, passphraseFile, ...place }, [schedule = '']) {
      const to = placeOf(place, context.io.env);
      if (keep !== undefined && !/^[1-9]\d{0,3}$/.test(keep))
        throw usageError(`--keep ${keep}: write a count from 1 to 1000`);
      const passphrase = await passphraseOf(context, passphraseFile);
      const client = await context.client();
      const set = await client.call(backups.schedule, {
        body: {
          schedule,
          to,
          ...(keep === undefined ? {} : { keep: Number(keep) }),
          ...(timezone === undefined ? {} : { timezone }),
          ...(passphrase === undefined ? {} : { passphrase }),
        },
      });
      context.show(set, () => scheduleText(set));
    },
  });

  addCommand(parent, {
    under: backup,
    name: 'unschedule',
    summary: 'the cluster backs itself up no more; what was made stays',
    async run(context) {
      const client = await context.client();
      await client.call(backups.unschedule, {});
      context.show({ schedule: null }, () => 'backups are made by hand from now on');
    },
  });

  addCommand(parent, {
    under: backup,
    name: 'list',
    summary: 'when the cluster backs itself up, and how that went; exit code 1 while it fails',
    async run(context) {
      const client = await context.client();
      const found = await client.call(backups.list, {});
      const { schedule } = found;
      context.show(found, () => listText(found));
      return schedule?.failure === undefined ? 0 : 1;
    },
  });

  addCommand(parent, {
    under: backup,
    name: 'run',
    summary: 'make one now, to where the schedule has them, and wait for its end',
    async run(context) {
      const client = await context.client();
      const { after = '' } = await client.call(backups.run, {});
      const ended = await context.progress('backing up', () =>
        pollUntil(
          async () => {
            const all = (await client.call(backups.list, {})).backups;
            return all.find(({ id, state }) => id > after && state !== 'running');
          },
          { what: 'the end of the backup', deadlineMs: runMs, intervalMs: 500 },
        ),
      );
      context.show(ended, () => backupText(ended));
      return ended.state === 'complete' ? 0 : 1;
    },
  });
}

function listText({
  schedule,
  backups: made,
}: {
  schedule?: BackupScheduleView | undefined;
  backups: readonly Backup[];
}): string {
  const table = formatTable(
    ['STARTED', 'STATE', 'SIZE', 'FILE', 'ERROR'],
    made.map((one) => [
      one.startedAt,
      one.state,
      one.sizeBytes === undefined ? '' : formatSize(one.sizeBytes),
      one.file,
      one.error,
    ]),
  );
  const head = schedule === undefined ? 'no schedule: flynn cluster backup schedule sets one' : scheduleText(schedule);
  return made.length === 0 ? head : `${head}\n\n${table}`;
}

function scheduleText({
  schedule,
  timezone = 'UTC',
  to,
  keep,
  isEncrypted,
  nextAt,
  lastSuccess,
  failure,
}: BackupScheduleView): string {
  return [
    `"${schedule}" (${timezone}) to ${to}, the newest ${keep} are kept, ${isEncrypted ? 'encrypted' : 'in clear'}`,
    ...(nextAt === undefined ? [] : [`next: ${nextAt}`]),
    lastSuccess === undefined
      ? 'last success: never'
      : `last success: ${lastSuccess.at}, ${lastSuccess.file}, ${formatSize(lastSuccess.sizeBytes)}`,
    ...(failure === undefined
      ? []
      : [`failing since ${failure.since} (${formatCount(failure.count, 'attempt')}): ${failure.message}`]),
  ].join('\n');
}

function backupText({ file, to, state, sizeBytes = 0, attempt, error }: Backup): string {
  if (state === 'complete') return `${to}/${file}: ${formatSize(sizeBytes)}`;
  return `${file} could not be made (attempt ${attempt}): ${error ?? 'nobody knows why'}`;
}
