/** Backups of a datastore: make one, put one back, cancel either. */
import { useState } from 'preact/hooks';
import type { datastoreBackups } from '@flynn/controller/datastore-backups/api';
import type { DatastoreBackup, DatastoreBackups } from '@flynn/controller/datastore-backups/model';
import { commandOf } from '@flynn/controller/datastores/kinds';
import type { ResourceView } from '@flynn/controller/providers/model';
import type { App } from '@flynn/controller/model';
import { ActButton, AskedButton } from '../parts/acts.tsx';
import { Badge } from '../parts/badge.tsx';
import { useEvery, useLoaded } from '../parts/loading.ts';
import { Commands, Empty, Shown } from '../parts/notices.tsx';
import { useServices } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import type { Tone } from '../parts/tone.ts';
import { bytesText } from '../text.ts';
import { mayChange } from '../world/abilities.ts';

const backupsEveryMs = 5_000;

const backupTones: Readonly<Record<DatastoreBackup['state'], Tone>> = {
  queued: 'busy',
  running: 'busy',
  retrying: 'warn',
  complete: 'good',
  failed: 'bad',
};

function isUnderWay({ state }: DatastoreBackup): boolean {
  return state === 'queued' || state === 'running' || state === 'retrying';
}

export function Backups({ app, resource, datastore }: { app: App; resource: ResourceView; datastore: App }) {
  const { name } = datastore;
  const { api, session } = useServices();
  const params = { resource: resource.id };
  const [isWatched, setIsWatched] = useState(false);
  const { loaded, reload, refresh } = useLoaded(resource.id, async (signal) => {
    const found = await api.call<typeof datastoreBackups.list>(
      'GET /resources/:resource/backups',
      { params },
      { signal },
    );
    setIsWatched(
      found.backups.some(isUnderWay) || found.restore?.state === 'wanted' || found.restore?.state === 'running',
    );
    return found;
  });
  useEvery(isWatched ? backupsEveryMs : 60_000, refresh);
  // On a datastore's own app roles are told by the apps that have it: the API judges.
  const isOwn = mayChange(app, session.identity) || app.datastore !== undefined;
  return (
    <Shown loaded={loaded} what="backups" reload={reload}>
      {(found) => (
        <>
          <BackupSummary found={found} />
          {isOwn ? (
            <p class="buttons">
              <ActButton
                label="Back up now"
                act={async (once) => {
                  await api.call<typeof datastoreBackups.run>(
                    'POST /resources/:resource/backups',
                    { params },
                    { once },
                  );
                  reload();
                }}
              />
              {found.restore?.state === 'wanted' && found.restore.by !== undefined ? (
                <ActButton
                  label="Do not put back"
                  act={async (once) => {
                    await api.call<typeof datastoreBackups.cancelRestore>(
                      'POST /resources/:resource/restore/cancel',
                      { params },
                      { once },
                    );
                    reload();
                  }}
                />
              ) : null}
            </p>
          ) : null}
          {found.backups.length === 0 ? (
            <Empty title="There is no backup yet.">
              <Commands
                lines={[
                  `flynn -a ${name} ${commandOf(datastore.datastore?.appliance ?? '')} backup schedule "0 3 * * *"`,
                ]}
              />
            </Empty>
          ) : (
            <BackupTable found={found} name={name} resource={resource} isOwn={isOwn} onChange={reload} />
          )}
        </>
      )}
    </Shown>
  );
}

function BackupSummary({ found }: { found: DatastoreBackups }) {
  const { schedule, failure, restore } = found;
  return (
    <>
      <p>
        {schedule.schedule === undefined ? (
          'It is backed up only when somebody asks.'
        ) : (
          <>
            Backed up at <code>{schedule.schedule}</code> {schedule.timezone ?? 'UTC'}, next{' '}
            <Time at={schedule.nextAt} />; the newest {schedule.keep} are kept.
          </>
        )}
      </p>
      {failure === undefined ? null : (
        <p class="notice notice-bad words">
          {failure.message} (since <Time at={failure.since} />)
        </p>
      )}
      {restore === undefined || restore.state === 'complete' ? null : (
        <p class={`notice words ${restore.state === 'failed' ? 'notice-bad' : 'notice-warn'}`} role="status">
          A backup is put back: {restore.state}
          {restore.error === undefined ? '' : `, ${restore.error}`}
        </p>
      )}
    </>
  );
}

function BackupTable(props: {
  found: DatastoreBackups;
  name: string;
  resource: ResourceView;
  isOwn: boolean;
  onChange: () => void;
}) {
  const { found, name, resource, isOwn, onChange } = props;
  const { api } = useServices();
  return (
    <Table caption={`Backups of ${name}`} head={['Made', 'State', '-By', '-Size', ...(isOwn ? ['Actions'] : [])]}>
      {found.backups.map((backup) => (
        <tr key={backup.id}>
          <th scope="row" title={backup.id}>
            <Time at={backup.createdAt} />
          </th>
          <td>
            <Badge tone={backupTones[backup.state]}>{backup.state}</Badge>
            {backup.error === undefined ? null : <p class="note words">{backup.error}</p>}
          </td>
          <td class="wide">{backup.by.is === 'person' ? backup.by.name : backup.by.is}</td>
          <td class="wide">{backup.dumpBytes === undefined ? '–' : bytesText(backup.dumpBytes)}</td>
          {isOwn ? (
            <td class="row-acts">
              {backup.state === 'complete' ? (
                <AskedButton
                  label="Put back"
                  title="Put this backup back?"
                  confirm="Put it back"
                  word={name}
                  isDanger
                  act={async (once) => {
                    await api.call<typeof datastoreBackups.restore>(
                      'POST /resources/:resource/restore',
                      { params: { resource: resource.id }, body: { backup: backup.id } },
                      { once },
                    );
                    onChange();
                  }}
                >
                  <p>
                    All that is in {name} now is replaced by what was in it <Time at={backup.createdAt} />. What was
                    written since is lost.
                  </p>
                </AskedButton>
              ) : null}
              {isUnderWay(backup) ? (
                <ActButton
                  label="Cancel"
                  name={`Cancel the backup ${backup.id}`}
                  act={async (once) => {
                    await api.call<typeof datastoreBackups.cancel>(
                      'POST /resources/:resource/backups/:backup/cancel',
                      { params: { resource: resource.id, backup: backup.id } },
                      { once },
                    );
                    onChange();
                  }}
                />
              ) : null}
            </td>
          ) : null}
        </tr>
      ))}
    </Table>
  );
}
