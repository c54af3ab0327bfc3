/** Releases, and going back to one. */
import { useState } from 'preact/hooks';
import type { releases } from '@flynn/controller/api';
import type { App, Release } from '@flynn/controller/model';
import { Question } from '../parts/acts.tsx';
import { Badge } from '../parts/badge.tsx';
import { useLoaded } from '../parts/loading.ts';
import { Empty, Shown } from '../parts/notices.tsx';
import { useServices } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { shortText } from '../text.ts';
import { mayChange } from '../world/abilities.ts';
import { type AppView, isUnderWay } from '../world/app-state.ts';
import { deploy } from './release-change.ts';
import { differenceOf } from './release-difference.ts';

export function Releases({ view }: { view: AppView }) {
  const { api, session } = useServices();
  const { app, deployment } = view;
  const params = { app: app.name };
  const version = `${app.releaseId ?? ''} ${deployment?.newReleaseId ?? ''}`;
  const { loaded, reload } = useLoaded(
    app.id,
    (signal) => api.call<typeof releases.list>('GET /apps/:app/releases', { params, query: {} }, { signal }),
    version,
  );
  const isOwn = mayChange(app, session.identity);
  return (
    <Shown loaded={loaded} what="releases" reload={reload}>
      {(found) => {
        const live = found.find(({ id }) => id === app.releaseId);
        if (found.length === 0) return <Empty title="There is no release yet: a push makes the first." />;
        return (
          <Table
            caption={`Releases of ${app.name}`}
            head={['Release', 'Made', '-Commit', '-Processes', ...(isOwn ? ['Actions'] : [])]}
          >
            {found.map((release) => (
              <tr key={release.id}>
                <th scope="row">
                  <span title={release.id}>v{release.version}</span>{' '}
                  {release.id === app.releaseId ? <Badge tone="good">live</Badge> : null}
                </th>
                <td>
                  <Time at={release.createdAt} />
                </td>
                <td class="wide">
                  <Commit release={release} />
                </td>
                <td class="wide">{Object.keys(release.processes).join(', ') || '–'}</td>
                {isOwn ? (
                  <td class="row-acts">
                    {release.id === app.releaseId || release.artifactId === undefined ? null : (
                      <DeployButton app={app} release={release} live={live} isBusy={isUnderWay(deployment)} />
                    )}
                  </td>
                ) : null}
              </tr>
            ))}
          </Table>
        );
      }}
    </Shown>
  );
}

/** What was live as somebody was asked: what they compared with is what they replace, and with anything else live it is refused. */
type Basis = Readonly<{ live: Release | undefined }>;

function DeployButton(props: { app: App; release: Release; live: Release | undefined; isBusy: boolean }) {
  const { app, release, live, isBusy } = props;
  const { api, go } = useServices();
  const [basis, setBasis] = useState<Basis | undefined>();
  // Until the list has been read again nobody can be told what would change.
  const isKnown = app.releaseId === live?.id;
  const deployOver = async ({ live }: Basis, once: string) => {
    const begun = await deploy(api, app.name, { releaseId: release.id, replaces: live?.id ?? null, once });
    go({ is: 'app', name: app.name, tab: 'deployments', item: begun.id });
  };
  return (
    <span class="act">
      <button
        type="button"
        class="plain"
        aria-label={`Deploy v${release.version}`}
        disabled={isBusy || !isKnown}
        onClick={() => setBasis({ live })}
      >
        {live !== undefined && release.version > live.version ? 'Deploy' : 'Roll back'}
      </button>
      {basis === undefined ? null : (
        <Question
          title={`Make v${release.version} live?`}
          confirm={`Deploy v${release.version}`}
          act={(once) => deployOver(basis, once)}
          onClose={() => setBasis(undefined)}
        >
          <Difference from={basis.live} to={release} />
        </Question>
      )}
    </span>
  );
}

function Commit({ release }: { release: Release }) {
  const commit = release.meta['git.commit'];
  return commit === undefined ? <span class="dim">–</span> : <code title={commit}>{shortText(commit)}</code>;
}

function Difference({ from, to }: { from: Release | undefined; to: Release }) {
  if (from === undefined) return <p>Nothing is live yet.</p>;
  const lines = differenceOf(from, to);
  if (lines.length === 0)
    return <p>It has the same code, variables and processes as v{from.version}, which is live.</p>;
  return (
    <>
      <p>Against v{from.version}, which is live, it changes</p>
      <ul>
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
      <p class="dim">What is in databases stays as it is. The live release serves until the other one is up.</p>
    </>
  );
}
