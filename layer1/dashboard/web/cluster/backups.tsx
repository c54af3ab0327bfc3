/** Backups of the whole cluster: the next, the last, those that failed. */
import type { backups } from '@flynn/controller/backup/api';
import type { Backup } from '@flynn/controller/backup/model';
import { ActButton } from '../parts/acts.tsx';
import { Badge } from '../parts/badge.tsx';
import type { Tone } from '../parts/tone.ts';
import { useEvery, useLoaded } from '../parts/loading.ts';
import { Commands, Empty, Shown } from '../parts/notices.tsx';
import { useServices } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { bytesText } from '../text.ts';

const tones: Readonly<Record<Backup['state'], Tone>> = {
  running: 'busy',
  retrying: 'warn',
  complete: 'good',
  failed: 'bad',
};

export function ClusterBackups() {
  const { api } = useServices();
  const { loaded, reload, refresh } = useLoaded('backups', (signal) =>
    api.call<typeof backups.list>('GET /backups', {}, { signal }),
  );
  useEvery(10_000, refresh);
  return (
    <Shown loaded={loaded} what="backups" reload={reload}>
      {({ schedule, backups: found }) =>
        schedule === undefined ? (
          <Empty title="The cluster is not backed up by itself.">
            <p>Every night, to a bucket or to a directory of a host:</p>
            <Commands lines={['flynn cluster backup schedule "0 3 * * *" --to dir:/mnt/backups']} />
          </Empty>
        ) : (
          <>
            <p>
              At <code>{schedule.schedule}</code> {schedule.timezone ?? 'UTC'} to <code>{schedule.to}</code>,{' '}
              {schedule.isEncrypted ? 'encrypted' : 'not encrypted'}; the newest {schedule.keep} are kept. Next{' '}
              <Time at={schedule.nextAt} />, last <Time at={schedule.lastSuccess?.at} />.
            </p>
            {schedule.failure === undefined ? null : (
              <p class="notice notice-bad words">
                <span role="alert">{schedule.failure.message}</span> (since <Time at={schedule.failure.since} />,{' '}
                {schedule.failure.count} times)
              </p>
            )}
            <p class="buttons">
              <ActButton
                label="Back up now"
                act={async (once) => {
                  await api.call<typeof backups.run>('POST /backups', {}, { once });
                  reload();
                }}
              />
            </p>
            <Table caption="Backups of the cluster" head={['Begun', 'State', '-File', 'Size']}>
              {found.map((one) => (
                <tr key={one.id}>
                  <th scope="row">
                    <Time at={one.startedAt} />
                  </th>
                  <td>
                    <Badge tone={tones[one.state]}>{one.state}</Badge>
                    {one.error === undefined ? null : <p class="note words">{one.error}</p>}
                  </td>
                  <td class="wide">
                    <code class="words">{one.file}</code>
                  </td>
                  <td>{one.sizeBytes === undefined ? '–' : bytesText(one.sizeBytes)}</td>
                </tr>
              ))}
            </Table>
          </>
        )
      }
    </Shown>
  );
}
