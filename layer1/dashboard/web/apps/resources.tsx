/** What an app has of providers, databases before all, with their backups. */
import { useState } from 'preact/hooks';
import type { DatastoreView, datastores } from '@flynn/controller/datastores/api';
import type { resources } from '@flynn/controller/providers/api';
import type { ResourceView } from '@flynn/controller/providers/model';
import type { App } from '@flynn/controller/model';
import { AskedButton } from '../parts/acts.tsx';
import { Badge } from '../parts/badge.tsx';
import type { Tone } from '../parts/tone.ts';
import { useEvery, useLoaded } from '../parts/loading.ts';
import { Link } from '../parts/link.tsx';
import { Empty, Shown } from '../parts/notices.tsx';
import { Section } from '../parts/section.tsx';
import { useServices, useWorld } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { bytesText, countText } from '../text.ts';
import { mayChange } from '../world/abilities.ts';
import { Backups } from './backups.tsx';
import { NewResource } from './new-resource.tsx';

/** While something is made or goes. */
const changingEveryMs = 2_000;
const atRestEveryMs = 30_000;

function isChanging({ state, apps }: ResourceView): boolean {
  return state !== 'ready' || apps.some((one) => one.state !== 'added');
}

export function Resources({ app }: { app: App }) {
  const { api, session } = useServices();
  const { datastore } = app;
  const [isAsked, setIsAsked] = useState(false);
  const mayAdd = datastore === undefined && !app.isSystem && mayChange(app, session.identity);
  const { loaded, reload, refresh } = useLoaded(
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
  const isWatched = isAsked || (loaded.is === 'ready' && loaded.value.some(isChanging));
  useEvery(isWatched ? changingEveryMs : atRestEveryMs, refresh);
  return (
    <>
      {datastore === undefined ? null : <Members app={app} />}
      <Shown loaded={loaded} what="resources" reload={reload}>
        {(found) =>
          found.length === 0 ? (
            <Empty title="It has no database, and nothing else of a provider." />
          ) : (
            <>
              {found.map((resource) => (
                <Resource key={resource.id} app={app} resource={resource} onChange={reload} />
              ))}
            </>
          )
        }
      </Shown>
      {mayAdd ? (
        <NewResource
          app={app}
          onAsked={(isUnderWay) => {
            setIsAsked(isUnderWay);
            reload();
          }}
        />
      ) : null}
    </>
  );
}

const resourceTones: Readonly<Record<ResourceView['state'], Tone>> = {
  pending: 'busy',
  provisioning: 'busy',
  ready: 'good',
  removing: 'warn',
};

function Resource({ app, resource, onChange }: { app: App; resource: ResourceView; onChange: () => void }) {
  const { session } = useServices();
  const world = useWorld();
  const datastore = world.all('app').find((one) => one.datastore?.resourceId === resource.id);
  const others = resource.apps.filter(({ appId }) => appId !== app.id);
  return (
    <Section
      title={datastore?.name ?? resource.provider}
      side={
        <>
          <span role="status">
            <Badge tone={resourceTones[resource.state]}>{resource.state}</Badge>
          </span>
          {mayChange(app, session.identity) && app.datastore === undefined && resource.state !== 'removing' ? (
            <Removal app={app} resource={resource} name={datastore?.name ?? resource.provider} onChange={onChange} />
          ) : null}
        </>
      }
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
      {resource.waitingFor === undefined ? null : (
        <p class="notice notice-warn words" role="status">
          Waits for {resource.waitingFor}
        </p>
      )}
      {resource.failure === undefined ? null : <p class="notice notice-bad words">{resource.failure.message}</p>}
      {resource.apps.map(({ appId, failure }) =>
        failure === undefined ? null : (
          <p key={appId} class="notice notice-bad words">
            {world.app(appId)?.name ?? 'an app'}: {failure.message}
          </p>
        ),
      )}
      {datastore === undefined || resource.state !== 'ready' ? null : (
        <Backups app={app} resource={resource} datastore={datastore} />
      )}
    </Section>
  );
}

function Removal(props: { app: App; resource: ResourceView; name: string; onChange: () => void }) {
  const { app, resource, name, onChange } = props;
  const { api } = useServices();
  const others = resource.apps.filter(({ appId }) => appId !== app.id).length;
  return (
    <AskedButton
      label="Remove"
      name={`Remove ${name}`}
      title={`Remove ${name}?`}
      confirm="Remove it"
      word={name}
      isDanger
      act={async () => {
        const params = { resource: resource.id };
        await api.call<typeof resources.remove>(
          'DELETE /resources/:resource',
          { params, query: {} },
          { timeoutMs: 60_000 },
        );
        onChange();
      }}
    >
      <p>
        All that is in it goes, with its backups. {app.name}
        {others === 0 ? '' : ` and ${countText(others, 'app')} more`} is rolled out without its variables. This cannot
        be taken back.
      </p>
    </AskedButton>
  );
}

function Members({ app }: { app: App }) {
  const { api } = useServices();
  const { loaded, reload, refresh } = useLoaded(app.id, (signal) =>
    api.call<typeof datastores.get>('GET /apps/:app/datastore', { params: { app: app.name } }, { signal }),
  );
  useEvery(10_000, refresh);
  return (
    <Section title="Members">
      <Shown loaded={loaded} what="the database" reload={reload}>
        {({ members, database, problem }) => (
          <>
            {problem === undefined ? null : <p class="notice notice-warn words">{problem}</p>}
            {database === undefined ? null : (
              <p>
                Version {database.version}, {sizeText(database)}, {database.connections} of {database.maxConnections}{' '}
                connections
              </p>
            )}
            <Table caption={`Members of ${app.name}`} head={['Host', 'Role', 'State', '-Behind', '-Volume']}>
              {members.map((member) => (
                <tr key={member.job ?? member.address ?? member.host}>
                  <th scope="row">{member.host ?? '–'}</th>
                  <td>
                    {member.role}
                    {member.isSynchronous && member.role === 'replica' ? ', may take over' : ''}
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

/** Of what is in memory, with how much may be. */
function sizeText({ sizeBytes, maxBytes, keys }: NonNullable<DatastoreView['database']>): string {
  const counted = keys === undefined ? '' : `${keys} keys, `;
  return `${counted}${bytesText(sizeBytes)}${maxBytes === undefined ? '' : ` of ${bytesText(maxBytes)} in memory`}`;
}
