/** Deployments: the one under way as it goes, and those before. */
import { useEffect, useState } from 'preact/hooks';
import type { deployments } from '@flynn/controller/api';
import type { deploymentControls } from '@flynn/controller/deployments/api-controls';
import type { App, Deployment } from '@flynn/controller/model';
import { apiUrl } from '../api/client.ts';
import { follow, type Link as Connection, pause } from '../api/following.ts';
import { readEvents } from '../api/streams.ts';
import { ActButton, AskedButton } from '../parts/acts.tsx';
import { Badge } from '../parts/badge.tsx';
import type { Tone } from '../parts/tone.ts';
import { Link } from '../parts/link.tsx';
import { useLoaded } from '../parts/loading.ts';
import { Empty, Shown } from '../parts/notices.tsx';
import { useIsWatched } from '../parts/watched.ts';
import { useServices, useWorld } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { durationText } from '../text.ts';
import { type DeploymentAct, deploymentActs, mayChange } from '../world/abilities.ts';
import { type AppView, isUnderWay } from '../world/app-state.ts';
import { newestFirst } from '../world/world.ts';
import { spansOf } from '../logs/ansi.ts';
import { ReleaseName } from './live-release.tsx';

const states: Readonly<Record<Deployment['state'], readonly [tone: Tone, text: string]>> = {
  pending: ['busy', 'about to begin'],
  releasing: ['busy', 'runs its release script'],
  running: ['busy', 'under way'],
  canary: ['warn', 'canaries are up: promote or abort'],
  paused: ['warn', 'paused'],
  finishing: ['busy', 'live, old ones are ending'],
  rolling_back: ['bad', 'failed, the old release comes back'],
  complete: ['good', 'complete'],
  failed: ['bad', 'failed'],
};

export function DeploymentBadge({ state }: { state: Deployment['state'] }) {
  const [tone, text] = states[state];
  return <Badge tone={tone}>{text}</Badge>;
}

export function Deployments({ view }: { view: AppView }) {
  const world = useWorld();
  const { app } = view;
  const found = newestFirst(world.of('deployment', app.id));
  if (found.length === 0) {
    return (
      <Empty title="Nothing was deployed yet.">
        <p>A push, a change of a variable or going back to a release begins one.</p>
      </Empty>
    );
  }
  const [newest] = found;
  return (
    <>
      {isUnderWay(newest) ? <DeploymentProgress key={newest.id} app={app} deployment={newest} /> : null}
      <Table caption={`Deployments of ${app.name}`} head={['Release', 'State', '-Before', 'Begun', '-Took', '-Why']}>
        {found.map((one) => (
          <tr key={one.id}>
            <th scope="row">
              <Link to={{ is: 'app', name: app.name, tab: 'deployments', item: one.id }}>
                <ReleaseName appId={app.id} releaseId={one.newReleaseId} />
              </Link>
            </th>
            <td>
              <DeploymentBadge state={one.state} />
            </td>
            <td class="wide">
              <ReleaseName appId={app.id} releaseId={one.oldReleaseId} />
            </td>
            <td>
              <Time at={one.createdAt} />
            </td>
            <td class="wide">{tookText(one)}</td>
            <td class="wide words one-line">{one.error ?? one.warning ?? ''}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}

function tookText({ createdAt, endedAt }: Deployment): string {
  return endedAt === undefined ? '–' : durationText(Date.parse(endedAt) - Date.parse(createdAt));
}

export function DeploymentPage({ view, id }: { view: AppView; id: string }) {
  const { api } = useServices();
  const world = useWorld();
  const { app } = view;
  const told = world.of('deployment', app.id).find((one) => one.id === id);
  const { loaded, reload } = useLoaded(
    id,
    (signal) =>
      api.call<typeof deployments.get>('GET /deployments/:deployment', { params: { deployment: id } }, { signal }),
    told?.state,
  );
  return (
    <>
      <p>
        <Link to={{ is: 'app', name: app.name, tab: 'deployments' }}>← all deployments</Link>
      </p>
      <Shown loaded={loaded} what="the deployment" reload={reload}>
        {(one) => <DeploymentProgress key={id} app={app} deployment={one} />}
      </Shown>
    </>
  );
}

/** One deployment, live while it is under way. */
export function DeploymentProgress({ app, deployment }: { app: App; deployment: Deployment }) {
  const { session } = useServices();
  const { latest, link } = useDeployment(deployment);
  const acts = mayChange(app, session.identity) ? deploymentActs[latest.state] : [];
  return (
    <section class="card" aria-label="Deployment">
      <div class="section-head">
        <h2>
          <ReleaseName appId={app.id} releaseId={latest.oldReleaseId} /> →{' '}
          <ReleaseName appId={app.id} releaseId={latest.newReleaseId} />
        </h2>
        <span role="status">
          <DeploymentBadge state={latest.state} />
        </span>
        <span class="dim">
          <Time at={latest.createdAt} />
          {latest.rollout === undefined ? null : `, ${latest.rollout.strategy}`}
        </span>
      </div>
      {link.is === 'lost' ? (
        <p class="dim">Lost sight of it ({link.why}); it goes on by itself. Trying again.</p>
      ) : null}
      <Progress progress={latest.progress} />
      {latest.state === 'canary' && latest.rollout?.autoPromoteMs !== undefined ? (
        <p class="dim">The rest follows once they were healthy for {durationText(latest.rollout.autoPromoteMs)}.</p>
      ) : null}
      <Outcome deployment={latest} />
      <div class="buttons">
        {acts.map((act) => (
          <Act key={act} act={act} app={app} deployment={latest} />
        ))}
      </div>
    </section>
  );
}

function Progress({ progress }: { progress: Deployment['progress'] }) {
  const types = Object.entries(progress).toSorted(([a], [b]) => (a < b ? -1 : 1));
  if (types.length === 0) return null;
  return (
    <ul class="progress">
      {types.map(([type, { wanted, up, old }]) => (
        <li key={type}>
          <label>
            <span>{type}</span>
            <progress max={Math.max(wanted, 1)} value={wanted === 0 ? 1 : up} />
          </label>
          <span class="dim">
            {up} of {wanted} up{old === 0 ? '' : `, ${old} old`}
          </span>
        </li>
      ))}
    </ul>
  );
}

function Outcome({ deployment }: { deployment: Deployment }) {
  const { error, warning, failedJob } = deployment;
  return (
    <>
      {warning === undefined ? null : <p class="notice notice-warn words">{warning}</p>}
      {error === undefined ? null : <p class="notice notice-bad words">{error}</p>}
      {failedJob === undefined ? null : (
        <figure>
          <figcaption class="dim">
            The last lines of {failedJob.type} <code>{failedJob.id.slice(-6)}</code>
            {failedJob.exitCode === undefined ? '' : `, exit code ${failedJob.exitCode}`}
          </figcaption>
          <pre class="lines" tabIndex={0}>
            {failedJob.lines.map((line) => (
              <>
                {spansOf(line).map(({ text, classes }) => (
                  <span class={classes}>{text}</span>
                ))}
                {'\n'}
              </>
            ))}
          </pre>
        </figure>
      )}
    </>
  );
}

const actTexts: Readonly<Record<DeploymentAct, string>> = {
  pause: 'Pause',
  resume: 'Resume',
  promote: 'Promote',
  abort: 'Abort',
};

function Act({ act, app, deployment }: { act: DeploymentAct; app: App; deployment: Deployment }) {
  const { api } = useServices();
  const params = { deployment: deployment.id };
  const carryOut = (once: string) =>
    act === 'abort'
      ? api.call<typeof deploymentControls.abort>('POST /deployments/:deployment/abort', { params, body: {} }, { once })
      : api.call<(typeof deploymentControls)[typeof act]>(`POST /deployments/:deployment/${act}`, { params }, { once });
  if (act !== 'abort')
    return <ActButton label={actTexts[act]} kind={act === 'promote' ? 'main' : 'plain'} act={carryOut} />;
  return (
    <AskedButton label="Abort" title="Abort this deployment?" confirm="Abort it" isDanger act={carryOut}>
      <p>
        {app.name} goes back to <ReleaseName appId={app.id} releaseId={deployment.oldReleaseId} />, which serves on
        meanwhile.
      </p>
    </AskedButton>
  );
}

/** As its own stream tells it: that of all changes has no counts. */
function useDeployment(deployment: Deployment): { latest: Deployment; link: Connection } {
  const { api } = useServices();
  const [latest, setLatest] = useState(deployment);
  const [link, setLink] = useState<Connection>({ is: 'connecting' });
  const isOpen = isUnderWay(deployment);
  const isWatched = useIsWatched();
  useEffect(() => {
    if (!isOpen) setLatest(deployment);
  }, [deployment, isOpen]);
  useEffect(() => {
    if (!isOpen || !isWatched) return undefined;
    const ended = new AbortController();
    const { signal } = ended;
    const url = apiUrl('/deployments/:deployment/events', { params: { deployment: deployment.id } });
    let isDone = false;
    void follow({
      // It tells how it is now when it begins: there is nothing to go on after.
      open: async () => readEvents(await api.stream(url, { signal })),
      onBegin: () => {},
      onEvent: ({ event, data }) => {
        if (event !== 'deployment') return;
        const told = data as Deployment;
        isDone = !isUnderWay(told);
        setLatest(told);
      },
      isLast: () => isDone,
      onLink: setLink,
      signal,
      wait: pause,
    });
    return () => ended.abort();
  }, [deployment.id, isOpen, isWatched]);
  return { latest, link };
}
