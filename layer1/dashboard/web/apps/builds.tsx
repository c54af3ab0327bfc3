/** What pushes had done: builds, releases, deployments as operations, each with its log. */
import type { operations } from '@flynn/controller/operations/api';
import type { App, Operation } from '@flynn/controller/model';
import { OperationLog } from '../logs/operation-log.tsx';
import { AskedButton } from '../parts/acts.tsx';
import { Badge } from '../parts/badge.tsx';
import type { Tone } from '../parts/tone.ts';
import { Link } from '../parts/link.tsx';
import { useLoaded } from '../parts/loading.ts';
import { Commands, Empty, Shown } from '../parts/notices.tsx';
import { useServices, useWorld } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { durationText, shortText } from '../text.ts';
import { isCancellable, mayChange } from '../world/abilities.ts';
import { newestFirst } from '../world/world.ts';

const tones: Readonly<Record<Operation['state'], Tone>> = {
  queued: 'quiet',
  waiting: 'quiet',
  running: 'busy',
  complete: 'good',
  failed: 'bad',
  cancelled: 'warn',
};

/** The stream of changes has those under way and those that ended since; the list has the rest. */
function useOperations(app: App) {
  const { api } = useServices();
  const world = useWorld();
  const { loaded, reload } = useLoaded(app.id, (signal) =>
    api.call<typeof operations.list>(
      'GET /apps/:app/operations',
      { params: { app: app.name }, query: { limit: 50 } },
      { signal },
    ),
  );
  const told = world.of('operation', app.id);
  const isTold = new Set(told.map(({ id }) => id));
  const found = loaded.is === 'ready' ? loaded.value : [];
  return { loaded, reload, all: newestFirst([...told, ...found.filter(({ id }) => !isTold.has(id))]) };
}

export function Builds({ app }: { app: App }) {
  const { loaded, reload, all } = useOperations(app);
  return (
    <Shown loaded={loaded} what="builds" reload={reload}>
      {() =>
        all.length === 0 ? (
          <Empty title="Nothing was pushed yet.">
            <Commands lines={['git push flynn main']} />
          </Empty>
        ) : (
          <Table caption={`Builds of ${app.name}`} head={['What', 'State', '-Commit', 'Asked for', '-Took']}>
            {all.map((one) => (
              <tr key={one.id}>
                <th scope="row">
                  <Link to={{ is: 'app', name: app.name, tab: 'builds', item: one.id }}>{one.kind}</Link>
                </th>
                <td>
                  <Badge tone={tones[one.state]}>
                    {one.isCancelRequested === true && one.state === 'running' ? 'stopping' : one.state}
                  </Badge>
                  {one.error === undefined ? null : <p class="note words">{one.error}</p>}
                  {one.waitsFor === undefined ? null : <p class="note words">{one.waitsFor}</p>}
                </td>
                <td class="wide">
                  {one.input.commit === undefined || one.input.commit === '' ? (
                    '–'
                  ) : (
                    <code>{shortText(one.input.commit)}</code>
                  )}
                </td>
                <td>
                  <Time at={one.createdAt} />
                </td>
                <td class="wide">{tookText(one)}</td>
              </tr>
            ))}
          </Table>
        )
      }
    </Shown>
  );
}

function tookText({ startedAt, endedAt }: Operation): string {
  if (startedAt === undefined || endedAt === undefined) return '–';
  return durationText(Date.parse(endedAt) - Date.parse(startedAt));
}

export function BuildPage({ app, id }: { app: App; id: string }) {
  const { api, session } = useServices();
  const world = useWorld();
  const told = world.of('operation', app.id).find((one) => one.id === id);
  const params = { operation: id };
  const { loaded, reload } = useLoaded(
    id,
    (signal) => api.call<typeof operations.get>('GET /operations/:operation', { params }, { signal }),
    told?.state,
  );
  return (
    <>
      <p>
        <Link to={{ is: 'app', name: app.name, tab: 'builds' }}>← all builds</Link>
      </p>
      <Shown loaded={loaded} what="the build" reload={reload}>
        {(one) => (
          <section class="card" aria-label={one.kind}>
            <div class="section-head">
              <h2>{one.kind}</h2>
              <span role="status">
                <Badge tone={tones[one.state]}>{one.state}</Badge>
              </span>
              <span class="dim">
                <Time at={one.createdAt} />
                {one.runnerId === undefined ? '' : `, on ${one.runnerId}`}
              </span>
              {isCancellable[one.state] && mayChange(app, session.identity) ? (
                <AskedButton
                  label="Cancel"
                  title={`Cancel this ${one.kind}?`}
                  confirm="Cancel it"
                  isDanger
                  act={async (once) => {
                    await api.call<typeof operations.cancel>(
                      'POST /operations/:operation/cancel',
                      { params, body: {} },
                      { once },
                    );
                    reload();
                  }}
                >
                  <p>What waits for it is cancelled too. The live release stays as it is.</p>
                </AskedButton>
              ) : null}
            </div>
            {one.waitsFor === undefined ? null : <p class="notice words">{one.waitsFor}</p>}
            {one.error === undefined ? null : <p class="notice notice-bad words">{one.error}</p>}
            <OperationLog id={id} />
          </section>
        )}
      </Shown>
    </>
  );
}
