/** What an app has of providers, databases before all, with their backups. */
import { useState } from 'preact/hooks';
import type { datastoreBackups } from '@flynn/controller/datastore-backups/api';
import type { DatastoreBackup, DatastoreBackups } from '@flynn/controller/datastore-backups/model';
import type { datastores } from '@flynn/controller/datastores/api';
import type { resources } from '@flynn/controller/providers/api';
import type { ResourceView } from '@flynn/controller/providers/model';
import type { App } from '@flynn/controller/model';
import { ActButton, AskedButton } from '../parts/acts.tsx';
import { Badge } from '../parts/badge.tsx';
import type { Tone } from '../parts/tone.ts';
import { useEvery, useLoaded } from '../parts/loading.ts';
import { Link } from '../parts/link.tsx';
import { Commands, Empty, Shown } from '../parts/notices.tsx';
import { Section } from '../parts/section.tsx';
import { useServices, useWorld } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { bytesText } from '../text.ts';
import { mayChange } from '../world/abilities.ts';

const backupsEveryMs = 5_000;

export function Resources({ app }: { app: App }) {
  const { api } = useServices();
  const { datastore } = app;
  const { loaded, reload } = useLoaded(
    app.id,
    async (signal) =>
      datastore === undefined
        ? api.call<typeof resources.ofApp>('GET /apps/:app/resources', { params: { app: app.name } }, { signal })
        : [
            await api.call<typeof resources.get>(
              'GET /resources/:resource',
              { params: { resource: datastore.resourceId } },
              { signal },
            ),
          ],
    app.releaseId,
  );
  return (
    <>
      {datastore === undefined ? null : <Members app={app} />}
      <Shown loaded={loaded} what="resources" reload={reload}>
        {(found) =>
          found.length === 0 ? (
            <Empty title="It has no database, and nothing else of a provider.">
              <Commands lines={[`flynn -a ${app.name} resource add postgres`]} />
            </Empty>
          ) : (
            <>
              {found.map((resource) => (
                <Resource key={resource.id} app={app} resource={resource} />
              ))}
            </>
          )
        }
      </Shown>
    </>
  );
}

const resourceTones: Readonly<Record<ResourceView['state'], Tone>> = {
  pending: 'busy',
  ready: 'good',
  removing: 'warn',
};

function Resource({ app, resource }: { app: App; resource: ResourceView }) {
  const world = useWorld();
  const datastore = world.all('app').find((one) => one.datastore?.resourceId === resource.id);
  const others = resource.apps.filter(({ appId }) => appId !== app.id);
  return (
    <Section
      title={datastore?.name ?? resource.provider}
      side={<Badge tone={resourceTones[resource.state]}>{resource.state}</Badge>}
    >
      <p>
        {resource.provider}, made <Time at={resource.createdAt} />
        {resource.variables.length === 0 ? null : (
          <>
            , gives <code>{resource.variables.join(' ')}</code>
          </>
        )}
        {others.length === 0
          ? null
          : `${app.datastore === undefined ? ', also' : ''} to ${others.map(({ appId }) => world.app(appId)?.name ?? 'another app').join(', ')}`}
        {datastore === undefined || datastore.id === app.id ? null : (
          <>
            {' '}
            (<Link to={{ is: 'app', name: datastore.name, tab: '' }}>its processes</Link>)
          </>
        )}
      </p>
      {resource.waitingFor === undefined ? null : <p class="notice notice-warn words">{resource.waitingFor}</p>}
      {resource.failure === undefined ? null : <p class="notice notice-bad words">{resource.failure.message}</p>}
      {resource.apps.map(({ appId, failure }) =>
        failure === undefined ? null : (
          <p key={appId} class="notice notice-bad words">
            {world.app(appId)?.name ?? 'an app'}: {failure.message}
          </p>
        ),
      )}
      {datastore === undefined ? null : <Backups app={app} resource={resource} name={datastore.name} />}
    </Section>
  );
}

function Members({ app }: { app: App }) {
  const { api } = useServices();
  const { loaded, reload } = useLoaded(app.id, (signal) =>
    api.call<typeof datastores.get>('GET /apps/:app/datastore', { params: { app: app.name } }, { signal }),
  );
  useEvery(10_000, reload);
  return (
    <Section title="Members">
      <Shown loaded={loaded} what="the database" reload={reload}>
        {({ members, database, problem }) => (
          <>
            {problem === undefined ? null : <p class="notice notice-warn words">{problem}</p>}
            {database === undefined ? null : (
              <p>
                Version {database.version}, {bytesText(database.sizeBytes)}, {database.connections} of{' '}
                {database.maxConnections} connections
              </p>
            )}
            <Table caption={`Members of ${app.name}`} head={['Host', 'Role', 'State', '-Behind', '-Volume']}>
              {members.map((member) => (
                <tr key={member.job ?? member.address ?? member.host}>
                  <th scope="row">{member.host ?? '–'}</th>
                  <td>
                    {member.role}
                    {member.isSynchronous && member.role === 'replica' ? ', has all' : ''}
                  </td>
                  <td>{member.state}</td>
                  <td class="wide">{member.lagBytes === undefined ? '–' : bytesText(member.lagBytes)}</td>
                  <td class="wide">{member.volumeBytes === undefined ? '–' : bytesText(member.volumeBytes)}</td>
                </tr>
              ))}
            </Table>
          </>
        )}
      </Shown>
    </Section>
  );
}

const backupTones: Readonly<Record<DatastoreBackup['state'], Tone>> = {
  queued: 'busy',
  running: 'busy',
  retrying: 'warn',
  complete: 'good',
  failed: 'bad',
};

function Backups({ app, resource, name }: { app: App; resource: ResourceView; name: string }) {
  const { api, session } = useServices();
  const params = { resource: resource.id };
  const [isWatched, setIsWatched] = useState(false);
  const { loaded, reload } = useLoaded(resource.id, async (signal) => {
    const found = await api.call<typeof datastoreBackups.list>(
      'GET /resources/:resource/backups',
      { params },
      { signal },
    );
    setIsWatched(found.backups.some(({ state }) => state === 'queued' || state === 'running' || state === 'retrying'));
    return found;
  });
  useEvery(isWatched ? backupsEveryMs : 60_000, reload);
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
            </p>
          ) : null}
          {found.backups.length === 0 ? (
            <Empty title="There is no backup yet.">
              <Commands lines={[`flynn -a ${name} pg backup schedule "0 3 * * *"`]} />
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
            </td>
          ) : null}
        </tr>
      ))}
    </Table>
  );
}
