/** Releases, and going back to one. */
import type { releases } from '@flynn/controller/api';
import type { Release } from '@flynn/controller/model';
import { AskedButton } from '../parts/acts.tsx';
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
  const { api, session, go } = useServices();
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
                      <AskedButton
                        label={live !== undefined && release.version > live.version ? 'Deploy' : 'Roll back'}
                        name={`Deploy v${release.version}`}
                        title={`Make v${release.version} live?`}
                        confirm={`Deploy v${release.version}`}
                        isDisabled={isUnderWay(deployment)}
                        act={async (once) => {
                          const begun = await deploy(api, app.name, {
                            releaseId: release.id,
                            replaces: app.releaseId ?? null,
                            once,
                          });
                          go({ is: 'app', name: app.name, tab: 'deployments', item: begun.id });
                        }}
                      >
                        <Difference from={live} to={release} />
                      </AskedButton>
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
