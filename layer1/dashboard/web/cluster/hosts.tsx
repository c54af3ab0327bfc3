/** Hosts: how they are, what runs there, and whether they take more. */
import type { health } from '@flynn/controller/health/api';
import type { hosts, HostView } from '@flynn/controller/hosts/api';
import { ActButton, AskedButton } from '../parts/acts.tsx';
import { Badge } from '../parts/badge.tsx';
import type { Tone } from '../parts/tone.ts';
import { Link } from '../parts/link.tsx';
import { useEvery, useLoaded } from '../parts/loading.ts';
import { Shown } from '../parts/notices.tsx';
import { Section } from '../parts/section.tsx';
import { useServices } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { jobTones } from '../apps/job-text.ts';
import { bytesText } from '../text.ts';
import { type HostAct, hostActs } from '../world/abilities.ts';

const lookEveryMs = 5_000;

const tones: Readonly<Record<HostView['state'], Tone>> = {
  up: 'good',
  cordoned: 'warn',
  draining: 'busy',
  away: 'bad',
};

export function Hosts() {
  const { api } = useServices();
  const { loaded, reload, refresh } = useLoaded('hosts', (signal) =>
    api.call<typeof hosts.list>('GET /hosts', {}, { signal }),
  );
  // What is used of a host its agent tells, and may take its time.
  const examined = useLoaded('examined', (signal) =>
    api.call<typeof health.get>('GET /status', { query: { patienceMs: 3_000 } }, { signal }),
  );
  useEvery(lookEveryMs, refresh);
  useEvery(3 * lookEveryMs, examined.refresh);
  const told = examined.loaded.is === 'ready' ? examined.loaded.value.hosts : [];
  return (
    <Shown loaded={loaded} what="hosts" reload={reload}>
      {(found) => (
        <Table
          caption="Hosts"
          head={[
            'Host',
            'State',
            'Jobs',
            '-Memory set aside',
            'Processors',
            'Memory used',
            'Disk used',
            '-Tags',
            '-Up',
          ]}
        >
          {found.map((host) => {
            const agent = told.find(({ id }) => id === host.id)?.agent;
            return (
              <tr key={host.id}>
                <th scope="row">
                  <Link to={{ is: 'cluster', tab: 'hosts', item: host.id }}>{host.id}</Link>
                  {host.address === undefined ? null : <p class="note">{host.address}</p>}
                </th>
                <td>
                  <Badge tone={tones[host.state]}>{host.state}</Badge>
                </td>
                <td>{host.jobs}</td>
                <td class="wide">{shareText(host)}</td>
                <td>
                  <Share percent={agent?.cpuUsedPercent} of={`processors of ${host.id}`} />
                </td>
                <td>
                  <Share percent={agent?.memoryUsedPercent} of={`memory of ${host.id}`} />
                </td>
                <td>
                  <Share percent={agent?.diskUsedPercent} of={`disk of ${host.id}`} />
                </td>
                <td class="wide">{tagsText(host.tags)}</td>
                <td class="wide">
                  <Time at={host.startedAt} />
                </td>
              </tr>
            );
          })}
        </Table>
      )}
    </Shown>
  );
}

function shareText({ claimed, capacity }: HostView): string {
  const set = bytesText(claimed.memoryBytes);
  return capacity === undefined ? set : `${set} of ${bytesText(capacity.memoryBytes)}`;
}

function Share({ percent, of }: { percent: number | undefined; of: string }) {
  if (percent === undefined) return <span class="dim">–</span>;
  const whole = Math.round(percent);
  return (
    <span class="share">
      <meter min={0} max={100} high={85} value={whole} aria-label={of} /> {whole} %
    </span>
  );
}

function tagsText(tags: Readonly<Record<string, string>>): string {
  return Object.entries(tags)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
}

export function HostPage({ id }: { id: string }) {
  const { api, session } = useServices();
  const { loaded, reload, refresh } = useLoaded(id, (signal) =>
    api.call<typeof hosts.get>('GET /hosts/:host', { params: { host: id } }, { signal }),
  );
  useEvery(lookEveryMs, refresh);
  return (
    <>
      <p>
        <Link to={{ is: 'cluster', tab: 'hosts' }}>← all hosts</Link>
      </p>
      <Shown loaded={loaded} what={id} reload={reload}>
        {(host) => (
          <>
            <section class="card" aria-label={id}>
              <div class="section-head">
                <h2>{id}</h2>
                <span role="status">
                  <Badge tone={tones[host.state]}>{host.state}</Badge>
                </span>
                {session.identity.role === 'admin' ? (
                  <span class="section-side">
                    {hostActs[host.state].map((act) => (
                      <Act key={act} act={act} host={host} onDone={reload} />
                    ))}
                  </span>
                ) : null}
              </div>
              <p>
                {host.jobs} jobs, {shareText(host)} of memory set aside
                {host.address === undefined ? '' : `, at ${host.address}`}
              </p>
              {host.drain === undefined ? null : (
                <p class="notice notice-warn">
                  Its jobs move elsewhere since <Time at={host.drain.startedAt} />
                  {host.drain.deadlineAt === undefined ? null : (
                    <>
                      , what is left is stopped <Time at={host.drain.deadlineAt} />
                    </>
                  )}
                  .
                </p>
              )}
              {host.waits.map((why) => (
                <p key={why} class="notice words">
                  {why}
                </p>
              ))}
              {host.state === 'away' ? (
                <p class="dim">
                  Is it gone for good? <code>flynn host remove {id}</code> forgets it.
                </p>
              ) : null}
            </section>
            <Section title="Jobs">
              <Table caption={`Jobs on ${id}`} head={['App', 'Process', 'State', '-Since']}>
                {host.list.map((job) => (
                  <tr key={job.id}>
                    <th scope="row">
                      <Link to={{ is: 'app', name: job.appName, tab: '' }}>{job.appName}</Link>
                    </th>
                    <td>{job.type}</td>
                    <td>
                      <Badge tone={jobTones[job.state]}>{job.state}</Badge>
                    </td>
                    <td class="wide">
                      <Time at={job.startedAt} />
                    </td>
                  </tr>
                ))}
              </Table>
            </Section>
            {host.volumes.length === 0 ? null : (
              <Section title="Data that is here">
                <Table caption={`Volumes on ${id}`} head={['App', 'Process', 'Volumes', '-Elsewhere']}>
                  {host.volumes.map((held) => (
                    <tr key={held.workloadId}>
                      <th scope="row">{held.appName ?? held.workloadId}</th>
                      <td>{held.type}</td>
                      <td>{held.volumes.join(', ')}</td>
                      <td class="wide">
                        {held.others === undefined ? 'nowhere else' : `members on ${held.others} more`}
                      </td>
                    </tr>
                  ))}
                </Table>
              </Section>
            )}
          </>
        )}
      </Shown>
    </>
  );
}

function Act({ act, host, onDone }: { act: HostAct; host: HostView; onDone: () => void }) {
  const { api } = useServices();
  const params = { host: host.id };
  const carryOut = async (): Promise<void> => {
    switch (act) {
      case 'cordon':
        await api.call<typeof hosts.cordon>('PUT /hosts/:host/cordon', { params });
        break;
      case 'uncordon':
        await api.call<typeof hosts.uncordon>('DELETE /hosts/:host/cordon', { params });
        break;
      case 'drain':
        await api.call<typeof hosts.drain>('PUT /hosts/:host/drain', { params, body: {} });
        break;
      case 'undrain':
        await api.call<typeof hosts.undrain>('DELETE /hosts/:host/drain', { params });
        break;
    }
    onDone();
  };
  const labels: Readonly<Record<HostAct, string>> = {
    cordon: 'Cordon',
    uncordon: 'Uncordon',
    drain: 'Drain',
    undrain: 'Stop draining',
  };
  if (act !== 'drain') return <ActButton label={labels[act]} act={carryOut} />;
  return (
    <AskedButton label={labels.drain} title={`Move all jobs away from ${host.id}?`} confirm="Drain it" act={carryOut}>
      <p>
        Its {host.jobs} jobs move to other hosts, replacements first, and it takes no others. Data on its volumes does
        not move: jobs that have some stay.
      </p>
    </AskedButton>
  );
}
